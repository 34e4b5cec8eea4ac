{{/* The template of a pod. Arguments: root, component (of escapement.components), annotations (of the pod). */}}
{{- define "escapement.pod" -}}
{{- $pod := include "escapement.podSettings" (dict "root" .root "own" (index .root.Values .component.key).pod) | fromJson -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $c := .component -}}
{{- $front := or (eq $c.program "master") (eq $c.program "standalone") -}}
{{- $keeps := or (eq $c.program "store") (eq $c.program "standalone") -}}
metadata:
  labels:
    {{- include "escapement.podLabels" (dict "root" $root "component" $c.name "labels" $pod.labels) | nindent 4 }}
    app.kubernetes.io/part-of: escapement
  annotations:
    # A change of the configuration restarts the pods, in the order of an upgrade.
    checksum/config: {{ include "escapement.configData" $root | sha256sum }}
    {{- with $pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "escapement.podPlace" (dict "root" $root "component" $c "pod" $pod) | nindent 2 }}
  # The drain, the pause before it, and room to close connections and the database.
  terminationGracePeriodSeconds: {{ add (int $v.drainSeconds) (ternary 5 0 $front) 15 }}
  {{- with $pod.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $c.program }}
      image: {{ include "escapement.image" $root }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/bin/escapement-{{ $c.program }}]
      args:
        {{- include "escapement.args" . | nindent 8 }}
      {{- $env := include "escapement.env" . | fromYamlArray }}
      {{- with (include "escapement.merged" (dict "base" $env "over" (default list $pod.extraEnv)) | fromJson).value | default $env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: grpc
          containerPort: {{ $c.grpc }}
        - name: {{ include "escapement.scheme" $root }}
          containerPort: {{ $c.http }}
      {{- $probes := include "escapement.probes" . | fromYaml }}
      {{- range $kind, $timing := $pod.probes }}
      {{- $_ := mergeOverwrite (index $probes (printf "%sProbe" $kind)) (default dict $timing) }}
      {{- end }}
      {{- toYaml $probes | nindent 6 }}
      {{- if $front }}
      lifecycle:
        preStop:
          # Until no Service names the pod any more. A process that drains refuses new calls.
          sleep: {seconds: 5}
      {{- end }}
      {{- with $pod.containerSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with (index $v $c.key).resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
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
        {{- with $pod.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $pod.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "escapement.configName" $root | quote }}}
    {{- if $keeps }}
    {{- with (index $v $c.key).persistence }}
    {{- if not .enabled }}
    - name: data
      emptyDir: {}
    {{- else if .existingClaim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ .existingClaim | quote }}}
    {{- end }}
    {{- end }}
    {{- else }}
    - name: run
      emptyDir: {sizeLimit: 1Mi}
    {{- end }}
    {{- with include "escapement.secretVolumes" . | fromJsonArray }}
    {{- include "escapement.secretVolumeSources" . | trim | nindent 4 }}
    {{- end }}
    {{- with $pod.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if $v.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ ternary $v.topologySpread.storesOverNodes $v.topologySpread.whenUnsatisfiable (and (eq $c.program "store") (eq . "kubernetes.io/hostname")) }}
      # A node that may not run the pod does not count as one without it.
      nodeTaintsPolicy: Honor
      labelSelector:
        matchLabels:
          {{- include "escapement.selector" (dict "root" $root "component" $c.name) | nindent 10 }}
      {{- if not $keeps }}
      matchLabelKeys: [pod-template-hash]
      {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Settings of a kind of pods, as JSON: `pod`, and over it its own. Arguments: root, own. */}}
{{- define "escapement.podSettings" -}}
{{- $all := (include "escapement.merged" (dict "base" dict "over" .root.Values.pod) | fromJson).value -}}
{{- toJson (include "escapement.merged" (dict "base" $all "over" (default dict .own)) | fromJson).value -}}
{{- end -}}

{{/* Who a pod is, where it runs, and with which rights. Arguments: root, component, pod (its settings). */}}
{{- define "escapement.podPlace" -}}
serviceAccountName: {{ include "escapement.serviceAccountName" . | quote }}
automountServiceAccountToken: false
# Variables that describe Services could be taken for flags.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- range $field := list "securityContext" "priorityClassName" "nodeSelector" "tolerations" "affinity" "dnsPolicy" "dnsConfig" }}
{{- with get $.pod $field }}
{{ toYaml (dict $field .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Secrets that a kind of pods mounts below /etc/escapement, as a JSON list: the folder, the Secret, and its key if only one
is needed. */}}
{{- define "escapement.secretVolumes" -}}
{{- $v := .root.Values -}}
{{- $name := .component.program -}}
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
{{- $volumes = append $volumes (dict "name" "postgresql" "secret" (default .existingSecret .caSecret) "key" .caKey "file" "ca.crt") -}}
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
