{{/* Refuses values that fit the schema one by one, but not together. */}}
{{- define "escapement.check" -}}
{{- $v := .Values -}}
{{- $tls := include "escapement.tls" . -}}
{{- if and (not $v.insecure) (not (and $tls $v.auth.requireCredentials)) -}}
{{- fail "\n\nWithout TLS and required credentials, whoever reaches the ports may call them.\nSet tls.mode (existingSecret or certManager) and auth.requireCredentials=true,\nor set insecure=true for a first try, or if something before the pods does both.\n" -}}
{{- end -}}
{{- if and (eq $v.mode "replicated") (not $v.store.postgresql.existingSecret) -}}
{{- fail "\n\nmode=replicated needs PostgreSQL: set store.postgresql.existingSecret to the name of a Secret with its URL.\n" -}}
{{- end -}}
{{- if and (eq $v.mode "replicated") $v.auth.requireCredentials (not $tls) -}}
{{- fail "\n\nauth.requireCredentials=true needs tls.mode existingSecret or certManager in mode=replicated:\nthe services prove by their certificate who they are.\n" -}}
{{- end -}}
{{- if and (eq $v.tls.mode "existingSecret") (not $v.tls.existingSecret) -}}
{{- fail "\n\ntls.mode=existingSecret needs tls.existingSecret: the name of a Secret with tls.crt, tls.key and ca.crt.\n" -}}
{{- end -}}
{{- if and (eq $v.tls.mode "certManager") (not $v.tls.certManager.issuerName) -}}
{{- fail "\n\ntls.mode=certManager needs tls.certManager.issuerName: the name of an Issuer.\n" -}}
{{- end -}}
{{- if and (ne $v.tls.mode "existingSecret") $v.tls.existingSecret -}}
{{- fail "\n\ntls.existingSecret counts only with tls.mode=existingSecret.\n" -}}
{{- end -}}
{{- if and $v.auth.bootstrapKey.existingSecret (not $v.auth.requireCredentials) -}}
{{- fail "\n\nauth.bootstrapKey.existingSecret counts only with auth.requireCredentials=true.\n" -}}
{{- end -}}
{{- range $key := list "master" "emitter" "handler" "tokenManager" -}}
{{- with (index $v $key).autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "\n\n%s.autoscaling: minReplicas (%d) is more than maxReplicas (%d).\n" $key (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.hosts) -}}
{{- fail "\n\ningress.enabled=true needs ingress.hosts.\n" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}
{{- fail "\n\nhttpRoute.enabled=true needs httpRoute.parentRefs: the gateways.\n" -}}
{{- end -}}
{{- end -}}
