{{/* The values of each agent, as JSON: those of its pool over those of `agent`, or `agent` alone. */}}
{{- define "fairlead.agents" -}}
{{- $shared := omit .Values.agent "pools" -}}
{{- $agents := list -}}
{{- range .Values.agent.pools -}}
{{- $agents = append $agents (mergeOverwrite (deepCopy $shared) .) -}}
{{- end -}}
{{ default (list $shared) $agents | toJson }}
{{- end }}

{{/* Two agents on one node would both write its inventory and configure its GPUs. */}}
{{- define "fairlead.checkPools" -}}
{{- $earlier := list -}}
{{- range $pool := fromJsonArray (include "fairlead.agents" .) -}}
{{- range $other := $earlier -}}
{{- if eq $pool.name $other.name -}}
{{- fail (printf "agent.pools: two pools have the name %s; names must be unique" $pool.name) -}}
{{- end -}}
{{- if not (include "fairlead.disjoint" (list $pool.nodeSelector $other.nodeSelector)) -}}
{{- fail (printf "agent.pools: a node could be in both %s and %s, and would run two agents; give both nodeSelectors the same label with different values" $other.name $pool.name) -}}
{{- end -}}
{{- end -}}
{{- $earlier = append $earlier $pool -}}
{{- end -}}
{{- end }}

{{/* Whether no node can match both selectors: a node has one value of each label. */}}
{{- define "fairlead.disjoint" -}}
{{- $other := index . 1 -}}
{{- range $key, $value := index . 0 -}}
{{- if and (hasKey $other $key) (ne $value (get $other $key)) }}true{{ end -}}
{{- end -}}
{{- end }}

{{/* Whether some agent publishes ResourceSlices. */}}
{{- define "fairlead.publishSlices" -}}
{{- range fromJsonArray (include "fairlead.agents" .) -}}
{{- if ne .resourceSlices "none" }}true{{ end -}}
{{- end -}}
{{- end }}

{{/* Whether some agent writes resources of its node. */}}
{{- define "fairlead.offersResources" -}}
{{- range fromJsonArray (include "fairlead.agents" .) -}}
{{- if ne .gpuResources "none" }}true{{ end -}}
{{- end -}}
{{- end }}
