{{- define "numaloc.labels" -}}
app.kubernetes.io/name: numaloc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of objects that no selector has, so that they may change with the chart. */ -}}
{{- define "numaloc.metaLabels" -}}
{{ include "numaloc.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "numaloc.agent" -}}
{{ .Release.Name }}-agent
{{- end }}

{{- /* Names of objects without a namespace: releases of several namespaces may be in one cluster. */ -}}
{{- define "numaloc.clusterName" -}}
{{ .Release.Namespace }}-{{ include "numaloc.agent" . }}
{{- end }}

{{- define "numaloc.image" -}}
{{ .Values.image.name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "numaloc.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podPriorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  # The image is of one architecture.
  kubernetes.io/arch: {{ .Values.image.arch }}
  {{- with .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* numaloc-agent.grant.toml, the file for hosts with packages, for the user and the directory of these values. */ -}}
{{- define "numaloc.daemonConfig" -}}
{{ .Files.Get "files/numaloc-agent.grant.toml" | replace "60700" (toString .Values.agent.uid) | replace "/run/numaloc/agent" .Values.agent.socketDirectory | trim }}
{{- end }}

{{- /* agent.toml. What values add comes last, because it may have tables. */ -}}
{{- define "numaloc.agentConfig" -}}
endpoint = "unix://{{ .Values.agent.socketDirectory }}/numalocd.sock"
listen = "{{ .Values.agent.listen | default (printf "[::]:%v" .Values.agent.port) }}"
config_maps = [{{ range $at, $map := .Values.configMaps }}{{ if $at }}, {{ end }}"{{ $map.namespace }}/{{ $map.name }}"{{ end }}]
{{- with .Values.agent.config }}
{{ . | trim }}
{{- end }}
{{- end }}

{{/* Asks numalocd whether it answers. It has no port: the socket is in the container. */}}
{{- define "numaloc.daemonProbe" -}}
exec:
  command: [/usr/bin/numalocctl, status, --request-timeout, 10s]
timeoutSeconds: 15
{{- end }}
