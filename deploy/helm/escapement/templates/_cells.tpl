{{/* Further cells. Templates of objects that each cell has are rendered once more for each further one, with a root whose `cell` is
its number and whose Values are those of the home cell with the changes of its entry in `cells`. */}}

{{/* What the names of a further cell's objects end with. Empty in the home cell. */}}
{{- define "escapement.suffix" -}}
{{- with .cell }}-cell-{{ . }}{{ end -}}
{{- end -}}

{{/* The name of the ConfigMap with the config file of a cell. */}}
{{- define "escapement.configName" -}}
{{ include "escapement.fullname" . }}{{ include "escapement.suffix" . }}
{{- end -}}

{{/* The beginning of messages that refuse values of a cell. */}}
{{- define "escapement.inCell" -}}
{{- with .cell }}In cell {{ . }}: {{ end -}}
{{- end -}}

{{/* host:port that leads to all stores of a cell, however many they are: the address of a cell cannot change. */}}
{{- define "escapement.cellAddress" -}}
{{ include "escapement.storesService" . }}.{{ .Release.Namespace }}.svc:7400
{{- end -}}

{{/* The values of a further cell, as JSON. Arguments: root, cell (its entry). */}}
{{- define "escapement.cellValues" -}}
{{- $root := .root -}}
{{- $own := omit .cell "number" "weight" -}}
{{- $base := omit .root.Values "cells" -}}
{{- /* A digest would go before the tag. */}}
{{- if and (dig "image" "tag" "" $own) (not (dig "image" "digest" "" $own)) -}}
{{- $base = (include "escapement.merged" (dict "base" $base "over" (dict "image" (dict "digest" ""))) | fromJson).value -}}
{{- end -}}
{{- /* Pods have the accounts of the home cell, unless the cell has its own. */}}
{{- range append (include "escapement.components" $root | fromJsonArray) (dict "name" "backup" "key" "backup") -}}
{{- $account := dict "create" false "name" "" "annotations" nil -}}
{{- if not (dig .key "serviceAccount" false $own) -}}
{{- $account = set $account "name" (include "escapement.serviceAccountName" (dict "root" $root "component" .)) -}}
{{- end -}}
{{- $base = (include "escapement.merged" (dict "base" $base "over" (dict .key (dict "serviceAccount" $account))) | fromJson).value -}}
{{- end -}}
{{- toJson (include "escapement.merged" (dict "base" $base "over" $own) | fromJson).value -}}
{{- end -}}

{{/* A template, rendered for each further cell. Arguments: root, of (the template's name), before (each of them). */}}
{{- define "escapement.inEachCell" -}}
{{- $all := . -}}
{{- range .root.Values.cells -}}
{{- $root := omit $all.root "Values" -}}
{{- $root = set $root "Values" (include "escapement.cellValues" (dict "root" $all.root "cell" .) | fromJson) -}}
{{- $root = set $root "cell" (int .number) -}}
{{- $all.before }}{{ include $all.of $root -}}
{{- end -}}
{{- end -}}

{{/* The objects that a template renders, in all cells. Arguments: root, of (the template's name). */}}
{{- define "escapement.rendered" -}}
{{- include .of .root -}}
{{- if has (trimPrefix "escapement." .of) (list "backup" "configmap" "deployments" "networkpolicies" "poddisruptionbudgets" "serviceaccount" "services" "statefulset") -}}
{{- /* The text before may end with a block of lines, which ends with a newline. */}}
{{- include "escapement.inEachCell" (dict "root" .root "of" .of "before" "\n\n---\n") -}}
{{- end -}}
{{- end -}}

{{/* Refuses further cells that cannot be. */}}
{{- define "escapement.checkCells" -}}
{{- $v := .Values -}}
{{- if and $v.cells (ne $v.mode "replicated") -}}
{{- fail "\n\ncells needs mode=replicated: in mode standalone one process is the whole platform.\n" -}}
{{- end -}}
{{- /* A CronJob's name has at most 52 characters. */}}
{{- if and $v.cells (gt (len (include "escapement.fullname" .)) 37) -}}
{{- fail "\n\ncells needs a prefix of all names with at most 37 characters: choose fullnameOverride when you install.\n" -}}
{{- end -}}
{{- $config := default dict $v.config -}}
{{- $numbers := list -}}
{{- range $cell := $v.cells -}}
{{- $number := int .number -}}
{{- if has $number $numbers -}}
{{- fail (printf "\n\ncells has number %d twice.\n" $number) -}}
{{- end -}}
{{- $numbers = append $numbers $number -}}
{{- range $name := list "partitions" "queue_shards" "policy_shards" -}}
{{- $home := get $config $name -}}
{{- if ne (toString $home) (dig "config" $name $home $cell | toString) -}}
{{- fail (printf "\n\nIn cell %d: config.%s must be that of the home cell.\n" $number $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "escapement.inEachCell" (dict "root" . "of" "escapement.checkCell" "before" "") -}}
{{- include "escapement.checkApart" (dict "root" . "of" "escapement.logPlace" "say" "the log of another cell. Set store.postgresql.existingSecret or store.postgresql.urlKey, or config.replicated_log") -}}
{{- include "escapement.checkApart" (dict "root" . "of" "escapement.backupsPlace" "say" "the backups of another cell. Set backup.s3.prefix or backup.persistence.existingClaim") -}}
{{- /* Without a cluster there is nothing to look up. */}}
{{- range (default dict (lookup "apps/v1" "StatefulSet" .Release.Namespace "")).items -}}
{{- $labels := default dict .metadata.labels -}}
{{- $number := get $labels "app.kubernetes.io/component" | toString | regexFind "-cell-[0-9]+$" | trimPrefix "-cell-" -}}
{{- if and (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (eq (get $labels "app.kubernetes.io/name") (include "escapement.name" $)) $number (not (has (int $number) $numbers)) -}}
{{- fail (printf "\n\ncells has no cell %s, whose stores run: a cell cannot be removed, because its tenants would stop. Put it back.\n" $number) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses cells that have one place. Arguments: root, of (the template that says the place of a cell), say. */}}
{{- define "escapement.checkApart" -}}
{{- $root := .root -}}
{{- $say := .say -}}
{{- $places := include "escapement.inEachCell" (dict "root" $root "of" .of "before" "\n") | printf "%s%s" (include .of $root) | splitList "\n" -}}
{{- range $i, $place := $places -}}
{{- if and $place (has $place (slice $places 0 $i)) -}}
{{- fail (printf "\n\nCell %d has %s.\n" (int (index $root.Values.cells (sub $i 1 | int)).number) $say) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the log of a cell is. */}}
{{- define "escapement.logPlace" -}}
{{- with .Values.store.postgresql }}{{ .existingSecret }} {{ .urlKey }}{{ end }} {{ default "default" (default dict .Values.config).replicated_log -}}
{{- end -}}

{{/* Where the backups of a cell are. Empty: it has none. */}}
{{- define "escapement.backupsPlace" -}}
{{- $v := .Values.backup -}}
{{- $s3 := default dict $v.s3 -}}
{{- if $v.schedule -}}
{{- if $s3.bucket }}{{ $s3.endpoint }} {{ include "escapement.backupPlace" . }}{{ else }}{{ default (include "escapement.configName" .) $v.persistence.existingClaim }}{{ end -}}
{{- end -}}
{{- end -}}
