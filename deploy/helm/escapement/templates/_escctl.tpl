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
