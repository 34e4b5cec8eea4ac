{{/* The chart's name. */}}
{{- define "escapement.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of all names: at most 40 characters, so that the name of each pod stays a DNS label and a store's id. */}}
{{- define "escapement.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "escapement.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "escapement.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "escapement.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a kind of pods is selected. Arguments: root, component. They never change. */}}
{{- define "escapement.selector" -}}
app.kubernetes.io/name: {{ include "escapement.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of an object. Arguments: root, component. */}}
{{- define "escapement.labels" -}}
{{ include "escapement.selector" . }}
app.kubernetes.io/part-of: escapement
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "escapement.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The kinds of pods, as JSON: name in objects, key in the values, program, ports, and whether others connect to its gRPC port. */}}
{{- define "escapement.components" -}}
{{- if eq .Values.mode "standalone" -}}
[{"name":"standalone","key":"standalone","grpc":7410,"http":7411}]
{{- else -}}
[{"name":"store","key":"store","grpc":7400,"http":7401},
{"name":"master","key":"master","grpc":7410,"http":7411},
{"name":"emitter","key":"emitter","grpc":7420,"http":7421},
{"name":"handler","key":"handler","grpc":7430,"http":7431},
{"name":"token-manager","key":"tokenManager","grpc":7440,"http":7441}]
{{- end -}}
{{- end -}}

{{/* The kind of pods that serves the public API. */}}
{{- define "escapement.front" -}}
{{- if eq .Values.mode "standalone" }}standalone{{ else }}master{{ end -}}
{{- end -}}

{{- define "escapement.storesService" -}}
{{ include "escapement.fullname" . }}-stores
{{- end -}}

{{/* Hosts of all stores, as a JSON list. */}}
{{- define "escapement.storeHosts" -}}
{{- $hosts := list -}}
{{- range $i := until (int .Values.store.replicas) -}}
{{- $pod := printf "%s-store-%d" (include "escapement.fullname" $) $i -}}
{{- $hosts = append $hosts (printf "%s.%s.%s.svc" $pod (include "escapement.storesService" $) $.Release.Namespace) -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end -}}

{{/* The value of --store. */}}
{{- define "escapement.storeAddresses" -}}
{{- $addresses := list -}}
{{- range include "escapement.storeHosts" . | fromJsonArray -}}
{{- $addresses = append $addresses (printf "%s:7400" .) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{- define "escapement.tls" -}}
{{- if ne .Values.tls.mode "none" }}true{{ end -}}
{{- end -}}

{{- define "escapement.tlsSecret" -}}
{{- if eq .Values.tls.mode "certManager" -}}
{{- include "escapement.fullname" . }}-tls
{{- else -}}
{{- .Values.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Paths for everybody, as a JSON list: REST, the page, and the description of the API if the argument is true. Not /metrics,
which needs no credentials. */}}
{{- define "escapement.publicPaths" -}}
{{ ternary `["/v1","/openapi.json","/docs","/ui"]` `["/v1","/ui"]` . }}
{{- end -}}

{{- define "escapement.scheme" -}}
{{- if include "escapement.tls" . }}https{{ else }}http{{ end -}}
{{- end -}}
