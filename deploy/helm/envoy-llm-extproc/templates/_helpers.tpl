{{/* Name of the Service and of what belongs to it. */}}
{{- define "extproc.fullname" -}}
{{- .Values.controller.fullnameOverride | default (printf "%s-%s" .Release.Name (.Values.controller.nameOverride | default .Chart.Name)) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "extproc.serviceAccount" -}}
{{- if .Values.controller.serviceAccount.create -}}
{{- .Values.controller.serviceAccount.name | default (include "extproc.fullname" .) -}}
{{- else -}}
{{- .Values.controller.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Name of the webhook's configuration, which is the cluster's: the namespace keeps two releases apart. */}}
{{- define "extproc.webhook" -}}
envoy-ai-gateway-gateway-pod-mutator.{{ .Release.Namespace }}
{{- end -}}

{{- define "extproc.selector" -}}
app.kubernetes.io/name: envoy-llm-extproc
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "extproc.labels" -}}
{{ include "extproc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Takes a dict of image and chart. */}}
{{- define "extproc.image" -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}
{{- end -}}

{{/* K=v;K2=v2 of a list of name and value. */}}
{{- define "extproc.pairs" -}}
{{- range $index, $each := . }}{{ if $index }};{{ end }}{{ $each.name }}={{ $each.value }}{{ end -}}
{{- end -}}

{{/* Names of pull Secrets, joined as the flag wants them. */}}
{{- define "extproc.pullSecrets" -}}
{{- range $index, $each := . }}{{ if $index }};{{ end }}{{ $each.name }}{{ end -}}
{{- end -}}

{{- define "extproc.seedSecret" -}}
{{- .Values.controller.mcp.sessionEncryption.existingSecret | default (printf "%s-mcp-seed" (include "extproc.fullname" .)) -}}
{{- end -}}
