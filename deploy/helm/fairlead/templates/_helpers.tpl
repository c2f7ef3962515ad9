{{/* The name that all objects begin with: "fairlead" for a release of that name. */}}
{{- define "fairlead.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Labels by which pods are found; they never change. Call with (list $ "component"), or
     with (list $ "agent" "pool"). */}}
{{- define "fairlead.selector" -}}
app.kubernetes.io/name: {{ default (index . 0).Chart.Name (index . 0).Values.nameOverride }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with rest . | rest | compact }}
fairlead.dev/agent-pool: {{ first . | quote }}
{{- end }}
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
{{- end }}

{{- define "fairlead.serviceAccount" -}}
{{- default (include "fairlead.fullname" .) .Values.serviceAccount.name -}}
{{- end }}

{{/* Users that are schedulers of ours, as a list of CEL. */}}
{{- define "fairlead.schedulerUsers" -}}
{{- $accounts := list (include "fairlead.serviceAccount" .) -}}
{{- if .Values.extender.enabled }}{{ $accounts = append $accounts (printf "%s-extender" (include "fairlead.fullname" .)) }}{{ end -}}
{{- $users := list -}}
{{- range $accounts }}{{ $users = append $users (printf "system:serviceaccount:%s:%s" $.Release.Namespace .) }}{{ end -}}
{{ include "fairlead.celList" (concat $users .Values.policies.schedulers) }}
{{- end }}

{{- define "fairlead.webhookServiceAccount" -}}
{{- default (printf "%s-webhook" (include "fairlead.fullname" .)) .Values.webhook.serviceAccount.name -}}
{{- end }}

{{- define "fairlead.agentServiceAccount" -}}
{{- default (printf "%s-agent" (include "fairlead.fullname" .)) .Values.agent.serviceAccount.name -}}
{{- end }}

{{- define "fairlead.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{/* The scheduler names that are served, as a list of CEL: ['gpu-scheduler', 'toyscheduler'] */}}
{{- define "fairlead.schedulerNames" -}}
{{- $names := list "gpu-scheduler" "toyscheduler" -}}
{{- if .Values.scheduler.name -}}
{{- $names = list .Values.scheduler.name -}}
{{- else if .Values.config.profiles -}}
{{- $names = list -}}
{{- range .Values.config.profiles -}}
{{- $names = append $names (default "default-scheduler" .schedulerName) -}}
{{- end -}}
{{- end -}}
{{ include "fairlead.celList" $names }}
{{- end }}

{{- define "fairlead.celList" -}}
[{{ if . }}'{{ join "', '" . }}'{{ end }}]
{{- end }}

{{/* The groups of all ServiceAccounts in these namespaces, as a list of CEL. */}}
{{- define "fairlead.celNamespaces" -}}
{{- $groups := list -}}
{{- range . }}{{ $groups = append $groups (printf "system:serviceaccounts:%s" .) }}{{ end -}}
{{ include "fairlead.celList" $groups }}
{{- end }}

{{/* What the API server itself looks at, so that it asks about no pod that is not ours. */}}
{{- define "fairlead.matchConditions" -}}
- name: names-our-scheduler
  expression: >-
    has(object.spec.schedulerName)
    && object.spec.schedulerName in {{ include "fairlead.schedulerNames" . }}
{{- end }}

{{/* Whether queues of our own are read. */}}
{{- define "fairlead.queuesOn" -}}
{{- if not (has "fairlead" (dig "queues" "disabled" list .Values.config)) }}true{{ end -}}
{{- end }}

{{/* Whether certificates come from a Secret that the chart does not fill. */}}
{{- define "fairlead.foreignCertificates" -}}
{{- if or .Values.webhook.caBundle .Values.webhook.certManager.enabled }}true{{ end -}}
{{- end }}

{{/* Where reviews come from, as JSON, if addresses alone say it: a program cannot check the rest. */}}
{{- define "fairlead.webhookAddresses" -}}
{{- $found := list -}}
{{- range .Values.networkPolicy.webhookFrom -}}
{{- if and .ipBlock (not .ipBlock.except) -}}
{{- $found = append $found .ipBlock.cidr -}}
{{- end -}}
{{- end -}}
{{ ternary $found list (eq (len $found) (len .Values.networkPolicy.webhookFrom)) | toJson }}
{{- end }}

{{/* Combinations that no schema can refuse. */}}
{{- define "fairlead.check" -}}
{{- include "fairlead.checkPools" . -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail "autoscaling.enabled: one replica decides and the others stand by, so more do not make it faster; leave it false and set replicaCount" -}}
{{- end -}}
{{- if and .Values.policies.epoch (eq (toString (dig "leaderElection" "leaderElect" true .Values.config)) "false") -}}
{{- fail "config.leaderElection.leaderElect is false, but policies.epoch lets only an elected scheduler bind; set policies.epoch to false as well" -}}
{{- end -}}
{{- if and .Values.webhook.caBundle .Values.webhook.certManager.enabled -}}
{{- fail "webhook.caBundle and webhook.certManager.enabled: cert-manager writes the bundle itself; leave one of them out" -}}
{{- end -}}
{{- if and .Values.extender.enabled (gt (int .Values.replicaCount) 0) -}}
{{- fail "extender.enabled: scheduler and extender share one record of GPUs, so that one of them would only stand by; set replicaCount to 0" -}}
{{- end -}}
{{- if and .Values.webhook.clientNames (not .Values.webhook.clientCA) -}}
{{- fail "webhook.clientNames: names are believed of certificates of webhook.clientCA only; set it as well" -}}
{{- end -}}
{{- if and .Values.policies.inject (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "policies.inject: the API server injects by itself from Kubernetes 1.36 on; use webhook.enabled here" -}}
{{- end -}}
{{- if and .Values.files (not .Values.config) -}}
{{- fail "files: nothing names them; say in config which plugin comes from which file" -}}
{{- end -}}
{{- end }}

{{/* The isolation of shares, by scheduler name, as a map of CEL: of profiles that name one. */}}
{{- define "fairlead.celIsolation" -}}
{{- $pairs := list -}}
{{- range .Values.config.profiles -}}
{{- if .isolation -}}
{{- $pairs = append $pairs (printf "'%s': '%s'" .schedulerName .isolation) -}}
{{- end -}}
{{- end -}}
{ {{- join ", " $pairs -}} }
{{- end }}
