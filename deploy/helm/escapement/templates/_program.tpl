{{/* The config file of all programs, and the issuers of tokens: the data of the ConfigMap. */}}
{{- define "escapement.configData" -}}
escapement.yaml: |
  drain_timeout: {{ int .Values.drainSeconds }}s
  {{- if .Values.insecure }}
  insecure: true
  {{- end }}
  {{- if .Values.auth.requireCredentials }}
  require_credentials: true
  {{- end }}
  {{- if .Values.auth.jwtIssuers }}
  jwt_issuers: /etc/escapement/config/jwt_issuers.yaml
  {{- end }}
  {{- if include "escapement.tls" . }}
  tls_cert: /etc/escapement/tls/tls.crt
  tls_key: /etc/escapement/tls/tls.key
  tls_service_ca: /etc/escapement/tls/ca.crt
  peer_ca: /etc/escapement/tls/ca.crt
  {{- end }}
  {{- range $name, $value := .Values.config }}
  {{ $name }}: {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ toJson $value }}{{ end }}
  {{- end }}
{{- with .Values.auth.jwtIssuers }}
jwt_issuers.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Arguments of a program. Arguments: root, component. */}}
{{- define "escapement.args" -}}
{{- $v := .root.Values -}}
{{- $name := .component.program -}}
- --config=/etc/escapement/config/escapement.yaml
- --listen={{ $v.listenAddress }}:{{ .component.grpc }}
- --http_listen={{ $v.listenAddress }}:{{ .component.http }}
{{- if has $name (list "store" "standalone") }}
# Not the root of the volume, which may have a folder of the file system's own.
- --data_dir=/var/lib/escapement/data
{{- else }}
- --store={{ include "escapement.storeAddresses" .root }}
{{- end }}
{{- if eq $name "store" }}
{{- with .root.cell }}
- --cell={{ . }}
{{- end }}
- --store_id=$(POD_NAME)
- --advertise=$(POD_NAME).{{ include "escapement.storesService" .root }}.{{ .root.Release.Namespace }}.svc:7400
{{- end }}
{{- if has $name (list "emitter" "handler" "token-manager") }}
# A container that is started again in its pod need not wait for the leases of the one that died.
- --instance_file=/run/escapement/instance
{{- end }}
{{- if and $v.auth.bootstrapKey.existingSecret (has $name (list "master" "standalone")) }}
- --bootstrap_key_file=/etc/escapement/bootstrap/{{ $v.auth.bootstrapKey.key }}
{{- end }}
{{- if and $v.secretKeys.existingSecret (has $name (list "master" "handler" "standalone")) }}
- --secret_keys_file=/etc/escapement/secret-keys/{{ $v.secretKeys.key }}
{{- end }}
{{- end -}}

{{/* Environment of a program, as YAML. Arguments: root, component. libpq takes its variables where the URL says nothing. */}}
{{- define "escapement.env" -}}
{{- if eq .component.program "store" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: ESCAPEMENT_REPLICATE_THROUGH
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.store.postgresql.existingSecret | quote }}
      key: {{ .root.Values.store.postgresql.urlKey | quote }}
{{- if .root.Values.store.postgresql.caKey }}
- {name: PGSSLMODE, value: verify-full}
- {name: PGSSLROOTCERT, value: /etc/escapement/postgresql/ca.crt}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Probes of a program. Arguments: root, component. They ask the HTTP port: the kubelet's probe of gRPC knows no TLS. With TLS
the kubelet neither verifies the certificate nor presents one. */}}
{{- define "escapement.probes" -}}
{{- $scheme := include "escapement.scheme" .root -}}
# The port opens when a store has read its database, which takes long after a crash with much data.
startupProbe:
  httpGet: {path: /healthz, port: {{ $scheme }}, scheme: {{ upper $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: {{ ternary 900 60 (has .component.program (list "store" "standalone")) }}
# True of a process that follows, or waits for its store or for PostgreSQL: a restart would not help it.
livenessProbe:
  httpGet: {path: /healthz, port: {{ $scheme }}, scheme: {{ upper $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- if eq .component.program "store" }}
# True of the leader, and of a follower that could lead at once. So an upgrade restarts the next store when this one can take over.
{{- end }}
readinessProbe:
  httpGet: {path: {{ ternary "/replicaz" "/readyz" (eq .component.program "store") }}, port: {{ $scheme }}, scheme: {{ upper $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
{{- end -}}
