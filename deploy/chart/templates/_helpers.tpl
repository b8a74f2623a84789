{{- /* What the templates share. Everything is named after the release. */}}

{{- define "lakh.labels" -}}
app.kubernetes.io/name: lakh
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Whether CronJobs are run: "true" or nothing. */}}
{{- define "lakh.cronJobs" -}}
{{- if kindIs "bool" .Values.cronJobs }}{{ if .Values.cronJobs }}true{{ end }}
{{- else if eq .Values.mode "replace" }}true{{ end }}
{{- end }}

{{- /* The name of the Lease: one for each mode, as the modes do not work on the same Jobs. */}}
{{- define "lakh.lease" -}}
{{ .Release.Name }}-{{ .Values.mode }}
{{- end }}

{{- define "lakh.priorityClass" -}}
{{- if .Values.priorityClassName }}{{ .Values.priorityClassName }}
{{- else if not .Values.namespaces }}{{ .Release.Name }}{{ end }}
{{- end }}

{{- define "lakh.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .Release.Name }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Rules as a ClusterRole, or as a Role in each of the namespaces, and bound: (list $ NAME RULES). */}}
{{- define "lakh.role" -}}
{{- $chart := index . 0 }}
{{- $name := index . 1 }}
{{- $rules := index . 2 }}
{{- $scope := ternary "" "Cluster" (gt (len $chart.Values.namespaces) 0) }}
{{- range $namespace := ($chart.Values.namespaces | default (list "")) }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}Role
metadata:
  name: {{ $name }}
  {{- if $namespace }}
  namespace: {{ $namespace }}
  {{- end }}
  labels:
    {{- include "lakh.labels" $chart | nindent 4 }}
rules:
{{- $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}RoleBinding
metadata:
  name: {{ $name }}
  {{- if $namespace }}
  namespace: {{ $namespace }}
  {{- end }}
  labels:
    {{- include "lakh.labels" $chart | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $scope }}Role
  name: {{ $name }}
{{ include "lakh.subjects" $chart }}
---
{{- end }}
{{- end }}
