{{/* What the pods of both programs have in common. Call with (list $ "component"). */}}
{{- define "fairlead.podMetadata" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "fairlead.selector" . | nindent 2 }}
  {{- with $.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := deepCopy $.Values.podAnnotations -}}
{{- if $.Values.config }}
{{- $_ := set $annotations "checksum/config" (list $.Values.config $.Values.files | toJson | sha256sum) -}}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fairlead.podSpec" -}}
{{- $ := index . 0 -}}
# Another scheduler must place this pod: Fairlead cannot place itself.
schedulerName: default-scheduler
{{- with $.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $.Values.podSecurityContext | nindent 2 }}
# One node that fails should not take both.
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fairlead.selector" . | nindent 8 }}
{{- with $.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fairlead.environment" -}}
{{- if .Values.scheduler.name }}
- name: SCHEDULER_NAME
  value: {{ .Values.scheduler.name | quote }}
{{- end }}
{{- if ne .Values.logLevel "info" }}
- name: LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
{{- end }}
{{- if kindIs "map" .Values.env }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- else if .Values.env }}
{{ toYaml .Values.env }}
{{- end }}
{{- end }}
