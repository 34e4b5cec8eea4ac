{{/* The chart's name. */}}
{{- define "escapement.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of all names: at most 40 characters, so that the name of each pod stays a DNS label and a store's id. A release may
have dots, and begin with a digit; the name of a Service must not. */}}
{{- define "escapement.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "escapement.name" . -}}
{{- $release := replace "." "-" .Release.Name -}}
{{- $full := ternary $release (printf "%s-%s" $release $name) (contains $name $release) -}}
{{- if not (regexMatch "^[a-z]" $full) -}}
{{- $full = printf "%s-%s" .Chart.Name $release -}}
{{- end -}}
{{- $full | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The account of a kind of pods: its own one, or that of all. Arguments: root, component. */}}
{{- define "escapement.serviceAccountName" -}}
{{- $all := .root.Values.serviceAccount -}}
{{- $own := default dict (default dict (index .root.Values .component.key)).serviceAccount -}}
{{- $full := include "escapement.fullname" .root -}}
{{- if $own.create -}}
{{- default (printf "%s-%s" $full .component.name) $own.name -}}
{{- else if $own.name -}}
{{- $own.name -}}
{{- else -}}
{{- default (ternary $full "default" $all.create) $all.name -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a kind of pods is selected. Arguments: root, component. They never change. */}}
{{- define "escapement.selector" -}}
app.kubernetes.io/name: {{ include "escapement.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of a pod. Arguments: root, component, labels (its own, which go before commonLabels). No version and no chart: a
change of the template restarts the pod. */}}
{{- define "escapement.podLabels" -}}
{{ include "escapement.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with merge dict (default dict .labels) (default dict .root.Values.commonLabels) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of an object. Arguments: root, component, labels (its own). */}}
{{- define "escapement.labels" -}}
{{ include "escapement.podLabels" . }}
app.kubernetes.io/part-of: escapement
app.kubernetes.io/version: {{ include "escapement.labelValue" .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | include "escapement.labelValue" | quote }}
{{- end -}}

{{/* A text as the value of a label. A version may have a +, and be longer. */}}
{{- define "escapement.labelValue" -}}
{{- regexReplaceAll "[^-A-Za-z0-9_.]" . "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{/* A tag has no +: tools/release writes - for it. */}}
{{- define "escapement.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with (default dict .Values.global).imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default (replace "+" "-" .Chart.AppVersion) .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The kinds of pods of both modes, as JSON: program, key in the values, ports. */}}
{{- define "escapement.allComponents" -}}
[{"program":"standalone","key":"standalone","grpc":7410,"http":7411},
{"program":"store","key":"store","grpc":7400,"http":7401},
{"program":"master","key":"master","grpc":7410,"http":7411},
{"program":"emitter","key":"emitter","grpc":7420,"http":7421},
{"program":"handler","key":"handler","grpc":7430,"http":7431},
{"program":"token-manager","key":"tokenManager","grpc":7440,"http":7441}]
{{- end -}}

{{/* The kinds of pods of this mode and cell, also with their name in objects. Masters are in the home cell alone. */}}
{{- define "escapement.components" -}}
{{- $root := . -}}
{{- $components := list -}}
{{- range include "escapement.allComponents" . | fromJsonArray -}}
{{- $ofMode := eq (eq .program "standalone") (eq $root.Values.mode "standalone") -}}
{{- if and $ofMode (not (and $root.cell (eq .program "master"))) -}}
{{- $components = append $components (set . "name" (printf "%s%s" .program (include "escapement.suffix" $root))) -}}
{{- end -}}
{{- end -}}
{{- toJson $components -}}
{{- end -}}

{{/* The kind of pods that serves the public API. */}}
{{- define "escapement.front" -}}
{{- if eq .Values.mode "standalone" }}standalone{{ else }}master{{ end -}}
{{- end -}}

{{/* The Service that names each pod of the public API. */}}
{{- define "escapement.headlessService" -}}
{{ include "escapement.fullname" . }}-headless
{{- end -}}

{{- define "escapement.storesService" -}}
{{ include "escapement.fullname" . }}-stores{{ include "escapement.suffix" . }}
{{- end -}}

{{/* Hosts of all stores, as a JSON list. */}}
{{- define "escapement.storeHosts" -}}
{{- $hosts := list -}}
{{- range $i := until (int .Values.store.replicas) -}}
{{- $pod := printf "%s-store%s-%d" (include "escapement.fullname" $) (include "escapement.suffix" $) $i -}}
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

{{/* What meshes and gateways should take a gRPC port for: HTTP/2 without TLS, or TLS. */}}
{{- define "escapement.grpcProtocol" -}}
{{- if include "escapement.tls" . }}https{{ else }}kubernetes.io/h2c{{ end -}}
{{- end -}}

{{/* Ports of the Services of the public API. */}}
{{- define "escapement.apiPorts" -}}
{{- $scheme := include "escapement.scheme" . -}}
- {name: grpc, port: 7410, targetPort: grpc, appProtocol: {{ include "escapement.grpcProtocol" . }}}
- {name: {{ $scheme }}, port: 7411, targetPort: {{ $scheme }}, appProtocol: {{ $scheme }}}
{{- end -}}
