{{/* Refuses values that fit the schema one by one, but not together. */}}
{{- define "escapement.check" -}}
{{- $v := .Values -}}
{{- $tls := include "escapement.tls" . -}}
{{- if and (not $v.insecure) (not (and $tls $v.auth.requireCredentials)) -}}
{{- fail "\n\nWithout TLS and required credentials, whoever reaches the ports may call them.\nSet tls.mode (existingSecret or certManager) and auth.requireCredentials=true,\nor set insecure=true for a first try, or if something before the pods does both.\n" -}}
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
{{- include "escapement.checkCell" . -}}
{{- include "escapement.checkCells" . -}}
{{- include "escapement.checkMerge" . -}}
{{- with $v.standalone.persistence -}}
{{- if and .existingClaim (not .enabled) -}}
{{- fail "\n\nstandalone.persistence.existingClaim counts only with standalone.persistence.enabled=true.\n" -}}
{{- end -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.hosts) -}}
{{- fail "\n\ningress.enabled=true needs ingress.hosts.\n" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}
{{- fail "\n\nhttpRoute.enabled=true needs httpRoute.parentRefs: the gateways.\n" -}}
{{- end -}}
{{- if and $v.grpcRoute.enabled (not $v.grpcRoute.parentRefs) -}}
{{- fail "\n\ngrpcRoute.enabled=true needs grpcRoute.parentRefs: the gateways.\n" -}}
{{- end -}}
{{- if and $v.grpcRoute.enabled $v.httpRoute.enabled -}}
{{- range $v.grpcRoute.hostnames -}}
{{- if has . (default list $v.httpRoute.hostnames) -}}
{{- fail (printf "\n\ngrpcRoute.hostnames and httpRoute.hostnames both have %s: a gateway takes only one kind of route for a name.\n" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses values of one cell: of the home cell, or of a further one. */}}
{{- define "escapement.checkCell" -}}
{{- $v := .Values -}}
{{- $in := include "escapement.inCell" . -}}
{{- if and (eq $v.mode "replicated") (not $v.store.postgresql.existingSecret) -}}
{{- fail (printf "\n\n%smode=replicated needs PostgreSQL: set store.postgresql.existingSecret to the name of a Secret with its URL.\n" $in) -}}
{{- end -}}
{{- if and $v.backup.schedule (not (include "escapement.escctlMayCall" .)) -}}
{{- fail (printf "\n\n%sbackup.schedule needs tls.mode existingSecret or certManager, or auth.bootstrapKey.existingSecret:\notherwise its pod has no credential.\n" $in) -}}
{{- end -}}
{{- with $v.backup.s3 -}}
{{- if and .bucket (or $v.backup.persistence.existingClaim $v.backup.persistence.storageClass) -}}
{{- fail (printf "\n\n%sbackup.s3.bucket and backup.persistence: backups go to the bucket or to the volume, not to both.\n" $in) -}}
{{- end -}}
{{- if and (not .bucket) (or .prefix .endpoint .region .credentialsSecret) -}}
{{- fail (printf "\n\n%sbackup.s3 needs backup.s3.bucket: the name of the bucket.\n" $in) -}}
{{- end -}}
{{- if and .bucket .credentialsSecret (not .region) (not .endpoint) -}}
{{- fail (printf "\n\n%sbackup.s3.credentialsSecret needs backup.s3.region, or backup.s3.endpoint: nothing else tells the region.\n" $in) -}}
{{- end -}}
{{- end -}}
{{- include "escapement.checkLabels" . -}}
{{- range $key := include "escapement.podKeys" . | fromJsonArray -}}
{{- with (index $v $key).serviceAccount -}}
{{- if and .annotations (not .create) -}}
{{- fail (printf "\n\n%s%s.serviceAccount.annotations counts only with %s.serviceAccount.create=true.\n" $in $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.store.postgresql.caSecret (not $v.store.postgresql.caKey) -}}
{{- fail (printf "\n\n%sstore.postgresql.caSecret needs store.postgresql.caKey: the key in that Secret, such as ca.crt.\n" $in) -}}
{{- end -}}
{{- range $key := include "escapement.podKeys" . | fromJsonArray -}}
{{- with (index $v $key).autoscaling -}}
{{- if and .enabled (not .targetCPUUtilizationPercentage) (not .metrics) -}}
{{- fail (printf "\n\n%s%s.autoscaling.enabled=true needs targetCPUUtilizationPercentage or metrics.\n" $in $key) -}}
{{- end -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "\n\n%s%s.autoscaling: minReplicas (%d) is more than maxReplicas (%d).\n" $in $key (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The keys of all kinds of pods in the values, as a JSON list. */}}
{{- define "escapement.podKeys" -}}
{{- $keys := list "backup" "test" -}}
{{- range include "escapement.allComponents" . | fromJsonArray -}}
{{- $keys = append $keys .key -}}
{{- end -}}
{{- toJson $keys -}}
{{- end -}}

{{/* Labels and annotations of users must not have keys that the chart sets: a map has each key once, and selectors need ours. */}}
{{- define "escapement.checkLabels" -}}
{{- $v := .Values -}}
{{- $in := include "escapement.inCell" . -}}
{{- $labels := dict "commonLabels" $v.commonLabels "pod.labels" $v.pod.labels "service.labels" $v.service.labels -}}
{{- $annotations := dict "pod.annotations" $v.pod.annotations -}}
{{- range $key := include "escapement.podKeys" . | fromJsonArray -}}
{{- with (index $v $key).pod -}}
{{- $labels = set $labels (printf "%s.pod.labels" $key) .labels -}}
{{- $annotations = set $annotations (printf "%s.pod.annotations" $key) .annotations -}}
{{- end -}}
{{- end -}}
{{- range $where, $own := $labels -}}
{{- range $name, $unused := $own -}}
{{- if or (eq $name "helm.sh/chart") (regexMatch "^app\\.kubernetes\\.io/(name|instance|component|part-of|version|managed-by)$" $name) -}}
{{- fail (printf "\n\n%s%s must not have %s: the chart sets this label.\n" $in $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $where, $own := $annotations -}}
{{- range $name, $unused := $own -}}
{{- if or (eq $name "checksum/config") (hasPrefix "helm.sh/" $name) -}}
{{- fail (printf "\n\n%s%s must not have %s: the chart sets this annotation.\n" $in $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Each key of `merge` is an object that these values render. */}}
{{- define "escapement.checkMerge" -}}
{{- $root := . -}}
{{- if .Values.merge -}}
{{- $known := list -}}
{{- range list "backup" "cells" "certificate" "configmap" "deployments" "ingress" "monitoring" "networkpolicies" "poddisruptionbudgets" "routes" "serviceaccount" "services" "statefulset" "test" -}}
{{- range splitList "\n---\n" (include "escapement.rendered" (dict "root" $root "of" (printf "escapement.%s" .)) | printf "\n%s\n") -}}
{{- $object := fromYaml . -}}
{{- if $object.kind -}}
{{- $known = append $known (include "escapement.objectKey" (dict "root" $root "object" $object)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $unused := .Values.merge -}}
{{- if not (has $key $known) -}}
{{- fail (printf "\n\nmerge: there is no object %s. These values render %s.\n" $key (sortAlpha $known | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
