{{/* Options with which escctl calls the public API from a pod. Files are where the pods of the API have them. */}}
{{- define "escapement.escctlOptions" -}}
- --server={{ include "escapement.fullname" . }}.{{ .Release.Namespace }}.svc:7410
{{- if include "escapement.tls" . }}
- --tls-ca=/etc/escapement/tls/ca.crt
- --tls-cert=/etc/escapement/tls/tls.crt
- --tls-key=/etc/escapement/tls/tls.key
{{- else if .Values.auth.requireCredentials }}
- --key-file=/etc/escapement/bootstrap/{{ .Values.auth.bootstrapKey.key }}
- --insecure-key
{{- end }}
{{- end -}}

{{/* Not empty if such a pod can call the API: without TLS and without the first key there is no credential that it could use. */}}
{{- define "escapement.escctlMayCall" -}}
{{- if or (include "escapement.tls" .) (not .Values.auth.requireCredentials) .Values.auth.bootstrapKey.existingSecret }}true{{ end -}}
{{- end -}}

{{/* The Secrets that the options name, as escapement.secretVolumes lists them. */}}
{{- define "escapement.escctlVolumes" -}}
{{- $front := dict "name" (include "escapement.front" .) "key" (include "escapement.front" .) }}
{{- $volumes := list }}
{{- range include "escapement.secretVolumes" (dict "root" . "component" $front) | fromJsonArray }}
{{- if has .name (list "tls" "bootstrap") }}{{ $volumes = append $volumes . }}{{ end }}
{{- end }}
{{- toJson $volumes -}}
{{- end -}}

{{/* The pods that run escctl, as a JSON list of names: others let them in. */}}
{{- define "escapement.escctlPods" -}}
{{- $pods := list -}}
{{- if .Values.backup.schedule }}{{ $pods = append $pods "backup" }}{{ end -}}
{{- if include "escapement.escctlMayCall" . -}}
{{- $pods = append $pods "test" -}}
{{- if eq .Values.mode "replicated" }}{{ $pods = append $pods "failover-test" }}{{ end -}}
{{- end -}}
{{- toJson $pods -}}
{{- end -}}
