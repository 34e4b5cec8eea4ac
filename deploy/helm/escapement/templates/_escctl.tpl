{{/* Options with which escctl calls the public API from a pod, or a further cell's store. Files are where the pods of the API have
them. */}}
{{- define "escapement.escctlOptions" -}}
- --server={{ if .cell }}{{ include "escapement.cellAddress" . }}{{ else }}{{ include "escapement.fullname" . }}.{{ .Release.Namespace }}.svc:7410{{ end }}
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
{{- $front := dict "program" (include "escapement.front" .) }}
{{- $used := ternary "tls" "bootstrap" (eq (include "escapement.tls" .) "true") }}
{{- $volumes := list }}
{{- range include "escapement.secretVolumes" (dict "root" . "component" $front) | fromJsonArray }}
{{- if eq .name $used }}{{ $volumes = append $volumes . }}{{ end }}
{{- end }}
{{- toJson $volumes -}}
{{- end -}}

{{/* The template of a pod that runs escctl. Arguments: root, component (name, and key in the values), steps (one container after
the other: name, args), resources. If they are needed: name and annotations of the pod, env, claim (of the volume with backups), and
restart (its policy). */}}
{{- define "escapement.escctlPod" -}}
{{- $root := .root }}
{{- $all := . }}
{{- $pod := include "escapement.podSettings" (dict "root" $root "own" (default dict (index $root.Values .component.key)).pod) | fromJson }}
{{- $secrets := include "escapement.escctlVolumes" $root | fromJsonArray }}
{{- $mounts := list }}
{{- if .claim }}
{{- $mounts = append $mounts (dict "name" "backups" "mountPath" "/var/backups/escapement") }}
{{- end }}
{{- range $secrets }}
{{- $mounts = append $mounts (dict "name" .name "mountPath" (printf "/etc/escapement/%s" .name) "readOnly" true) }}
{{- end }}
{{- $last := sub (len .steps) 1 | int }}
metadata:
  {{- with .name }}
  name: {{ . }}
  {{- end }}
  labels:
    {{- include "escapement.podLabels" (dict "root" $root "component" .component.name "labels" $pod.labels) | nindent 4 }}
  {{- with merge dict (default dict .annotations) (default dict $pod.annotations) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: {{ default "Never" .restart }}
  {{- include "escapement.podPlace" (dict "root" $root "component" .component "pod" $pod) | nindent 2 }}
  {{- if $last }}
  initContainers:
  {{- end }}
  {{- range $i, $step := .steps }}
  {{- if eq $i $last }}
  containers:
  {{- end }}
    - name: {{ $step.name }}
      image: {{ include "escapement.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [/usr/bin/escctl]
      args:
        {{- include "escapement.escctlOptions" $root | nindent 8 }}
        {{- toYaml $step.args | nindent 8 }}
      {{- with $all.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.containerSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $all.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $mounts }}
      volumeMounts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- end }}
  {{- if $mounts }}
  volumes:
    {{- with .claim }}
    - name: backups
      persistentVolumeClaim: {claimName: {{ . | quote }}}
    {{- end }}
    {{- with $secrets }}
    {{- include "escapement.secretVolumeSources" . | trim | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* The pods that run escctl, as a JSON list of names: others let them in. */}}
{{- define "escapement.escctlPods" -}}
{{- $pods := list -}}
{{- if .Values.backup.schedule }}{{ $pods = append $pods (printf "backup%s" (include "escapement.suffix" .)) }}{{ end -}}
{{- if and (not .cell) (include "escapement.escctlMayCall" .) -}}
{{- $pods = append $pods "test" -}}
{{- if eq .Values.mode "replicated" }}{{ $pods = append $pods "failover-test" }}{{ end -}}
{{- range .Values.cells }}{{ $pods = append $pods (printf "create-cell-%d" (int .number)) }}{{ end -}}
{{- end -}}
{{- toJson $pods -}}
{{- end -}}

{{/* Where backups go: the path of the volume, or the address in S3. */}}
{{- define "escapement.backupPlace" -}}
{{- $s3 := default dict .Values.backup.s3 -}}
{{- if $s3.bucket -}}
{{- printf "s3://%s/%s" $s3.bucket (default (printf "%s/%s" .Release.Namespace (include "escapement.configName" .)) $s3.prefix) -}}
{{- else -}}
/var/backups/escapement
{{- end -}}
{{- end -}}

{{/* Ports that the pod of backups calls outside of the release, as a JSON list: S3's, and STS's for a role. */}}
{{- define "escapement.backupPorts" -}}
{{- $s3 := default dict .Values.backup.s3 -}}
{{- $ports := list -}}
{{- if $s3.bucket -}}
{{- $port := 443 -}}
{{- with $s3.endpoint -}}
{{- $port = int (default (ternary "80" "443" (hasPrefix "http://" .)) (regexFind "[0-9]+$" (regexFind ":[0-9]+$" .))) -}}
{{- end -}}
{{- $ports = append $ports $port -}}
{{- if not $s3.credentialsSecret -}}{{- $ports = append $ports 443 -}}{{- end -}}
{{- end -}}
{{- toJson (uniq $ports) -}}
{{- end -}}
