{{/* A value over another one. Arguments: base, over. The result is JSON: {"value": …}. Maps are merged, and null removes a key.
Lists whose members all have a name are merged by it. Everything else is replaced. */}}
{{- define "escapement.merged" -}}
{{- $base := .base -}}
{{- $over := .over -}}
{{- $result := $over -}}
{{- if kindIs "map" $over -}}
{{- $result = ternary $base dict (kindIs "map" $base) | deepCopy -}}
{{- range $name, $value := $over -}}
{{- if kindIs "invalid" $value -}}
{{- $result = omit $result $name -}}
{{- else -}}
{{- $inner := include "escapement.merged" (dict "base" (get $result $name) "over" $value) | fromJson -}}
{{- $result = set $result $name $inner.value -}}
{{- end -}}
{{- end -}}
{{- else if and (include "escapement.named" $base) (include "escapement.named" $over) -}}
{{- $result = list -}}
{{- $names := list -}}
{{- range $member := $base -}}
{{- $names = append $names $member.name -}}
{{- range $over -}}
{{- if eq .name $member.name -}}
{{- $inner := include "escapement.merged" (dict "base" $member "over" .) | fromJson -}}
{{- $member = $inner.value -}}
{{- end -}}
{{- end -}}
{{- $result = append $result $member -}}
{{- end -}}
{{- range $over -}}
{{- if not (has .name $names) -}}
{{- $result = append $result . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "value" $result) -}}
{{- end -}}

{{/* Not empty if the argument is a list whose members all have a name. */}}
{{- define "escapement.named" -}}
{{- if and (kindIs "slice" .) . -}}
{{- $named := true -}}
{{- range . -}}
{{- if not (and (kindIs "map" .) (kindIs "string" (get (ternary . dict (kindIs "map" .)) "name"))) -}}
{{- $named = false -}}
{{- end -}}
{{- end -}}
{{- if $named }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* The objects that a template renders, with what `merge` says of them. Arguments: root, of (the template's name). */}}
{{- define "escapement.objects" -}}
{{- $root := .root -}}
{{- $text := include "escapement.rendered" . -}}
{{- if not $root.Values.merge -}}
{{- $text -}}
{{- else -}}
{{- range splitList "\n---\n" (printf "\n%s\n" $text) -}}
{{- $object := fromYaml . -}}
{{- if $object.kind }}
---
{{- $over := get $root.Values.merge (include "escapement.objectKey" (dict "root" $root "object" $object)) }}
{{ ternary (include "escapement.merged" (dict "base" $object "over" $over) | fromJson).value $object (kindIs "map" $over) | toYaml }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How `merge` calls an object: its kind, and what its name has behind the prefix of all names, without the hash of
a Job. Arguments: root, object. */}}
{{- define "escapement.objectKey" -}}
{{- $full := include "escapement.fullname" .root -}}
{{- $name := .object.metadata.name -}}
{{- if eq .object.kind "Job" -}}{{- $name = regexReplaceAll "-[0-9a-f]{8}$" $name "" -}}{{- end -}}
{{- if eq $name $full -}}
{{- .object.kind -}}
{{- else -}}
{{- printf "%s/%s" .object.kind (trimPrefix (printf "%s-" $full) $name) -}}
{{- end -}}
{{- end -}}
