{{/* The template of a pod. Arguments: root, component (of escapement.components), annotations (of the pod). */}}
{{- define "escapement.pod" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $c := .component -}}
{{- $front := or (eq $c.name "master") (eq $c.name "standalone") -}}
{{- $keeps := or (eq $c.name "store") (eq $c.name "standalone") -}}
metadata:
  labels:
    {{- include "escapement.labels" (dict "root" $root "component" $c.name) | nindent 4 }}
    {{- with $v.pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A change of the configuration restarts the pods, in the order of an upgrade.
    checksum/config: {{ include "escapement.configData" $root | sha256sum }}
    {{- with $v.pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "escapement.serviceAccountName" $root }}
  automountServiceAccountToken: false
  # Variables that describe Services could be taken for flags.
  enableServiceLinks: false
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $v.pod.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "escapement.podSecurity" $root | nindent 4 }}
  # The drain, the pause before it, and room to close connections and the database.
  terminationGracePeriodSeconds: {{ add (int $v.drainSeconds) (ternary 5 0 $front) 15 }}
  containers:
    - name: {{ $c.name }}
      image: {{ include "escapement.image" $root }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/bin/escapement-{{ $c.name }}]
      args:
        {{- include "escapement.args" . | nindent 8 }}
      {{- $env := include "escapement.env" . | trim }}
      {{- if $env }}
      env:
        {{- $env | nindent 8 }}
      {{- end }}
      ports:
        - name: grpc
          containerPort: {{ $c.grpc }}
        - name: {{ include "escapement.scheme" $root }}
          containerPort: {{ $c.http }}
      {{- include "escapement.probes" . | nindent 6 }}
      {{- if $front }}
      lifecycle:
        preStop:
          # Until no Service names the pod any more. A process that drains refuses new calls.
          sleep: {seconds: 5}
      {{- end }}
      securityContext:
        {{- include "escapement.containerSecurity" $root | nindent 8 }}
      resources:
        {{- toYaml (index $v $c.key).resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/escapement/config, readOnly: true}
        {{- if $keeps }}
        - {name: data, mountPath: /var/lib/escapement}
        {{- else }}
        - {name: run, mountPath: /run/escapement}
        {{- end }}
        {{- range include "escapement.secretVolumes" . | fromJsonArray }}
        - {name: {{ .name }}, mountPath: /etc/escapement/{{ .name }}, readOnly: true}
        {{- end }}
        {{- with $v.pod.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "escapement.fullname" $root }}}
    {{- if $keeps }}
    {{- if not (index $v $c.key).persistence.enabled }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- else }}
    - name: run
      emptyDir: {sizeLimit: 1Mi}
    {{- end }}
    {{- with include "escapement.secretVolumes" . | fromJsonArray }}
    {{- include "escapement.secretVolumeSources" . | trim | nindent 4 }}
    {{- end }}
    {{- with $v.pod.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if $v.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $v.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "escapement.selector" (dict "root" $root "component" $c.name) | nindent 10 }}
      {{- if not $keeps }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with $v.pod.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.pod.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.pod.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "escapement.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "escapement.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Secrets that a kind of pods mounts below /etc/escapement, as a JSON list: the folder, the Secret, and its key if only one
is needed. */}}
{{- define "escapement.secretVolumes" -}}
{{- $v := .root.Values -}}
{{- $name := .component.name -}}
{{- $volumes := list -}}
{{- if include "escapement.tls" .root -}}
{{- $volumes = append $volumes (dict "name" "tls" "secret" (include "escapement.tlsSecret" .root)) -}}
{{- end -}}
{{- if and $v.auth.bootstrapKey.existingSecret (has $name (list "master" "standalone")) -}}
{{- with $v.auth.bootstrapKey -}}
{{- $volumes = append $volumes (dict "name" "bootstrap" "secret" .existingSecret "key" .key) -}}
{{- end -}}
{{- end -}}
{{- if and $v.secretKeys.existingSecret (has $name (list "master" "handler" "standalone")) -}}
{{- $volumes = append $volumes (dict "name" "secret-keys" "secret" $v.secretKeys.existingSecret "key" $v.secretKeys.key) -}}
{{- end -}}
{{- if and (eq $name "store") $v.store.postgresql.caKey -}}
{{- with $v.store.postgresql -}}
{{- $volumes = append $volumes (dict "name" "postgresql" "secret" .existingSecret "key" .caKey "file" "ca.crt") -}}
{{- end -}}
{{- end -}}
{{- toJson $volumes -}}
{{- end -}}

{{/* The volumes of a list as secretVolumes makes it. Only the group of the pod may read the files. */}}
{{- define "escapement.secretVolumeSources" -}}
{{- range $volume := . }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    defaultMode: 0440
    {{- with .key }}
    items: [{key: {{ . | quote }}, path: {{ $volume.file | default . | quote }}}]
    {{- end }}
{{- end }}
{{- end -}}
