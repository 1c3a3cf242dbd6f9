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
{{ .Values.image.name }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* With the values, and what a DaemonSet has of its own: a nodeSelector and an affinity. */ -}}
{{- define "numaloc.scheduling" -}}
{{- $own := index . 1 }}
{{- with index . 0 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podPriorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity | default .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  {{- with .Values.image.arch }}
  # The image is of one architecture.
  kubernetes.io/arch: {{ . }}
  {{- end }}
  {{- with merge (dict) ($own.nodeSelector | default dict) .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* A file of the chart. One that is missing is no empty one: some ways to get a chart leave out links. */ -}}
{{- define "numaloc.file" -}}
{{- $file := printf "files/%s" (index . 1) -}}
{{- (index . 0).Files.Get $file | required (printf "%s is missing in the chart" $file) -}}
{{- end }}

{{- /* numaloc-agent.grant.toml, the file for hosts with packages, for the user and the directory of these values. */ -}}
{{- define "numaloc.daemonConfig" -}}
{{ include "numaloc.file" (list . "numaloc-agent.grant.toml") | replace "#named_nodes = true" (ternary "named_nodes = true" "#named_nodes = true" .Values.agent.podResources.enabled) | replace "60700" (toString .Values.agent.uid) | replace "/run/numaloc/agent" .Values.agent.socketDirectory | replace `["/kubepods.slice", "/kubepods"]` (toJson .Values.agent.cgroups) | trim }}
{{- end }}

{{- /* numaloc-nri.grant.toml, for the user of these values in place of the account of the package. */ -}}
{{- define "numaloc.nriGrant" -}}
{{ include "numaloc.file" (list . "numaloc-nri.grant.toml") | replace `user = "numaloc-nri"` (printf "user = %v" .Values.nri.uid) | replace `["/kubepods.slice", "/kubepods"]` (toJson .Values.agent.cgroups) | trim }}
{{- end }}

{{- /* nri.toml. containerd's own socket, the other source, is not in the pod. */ -}}
{{- define "numaloc.nriConfig" -}}
endpoint = "unix://{{ .Values.agent.socketDirectory }}/numalocd.sock"
source = "nri"
nri_socket = "{{ .Values.nri.socket }}"
user = "{{ .Values.nri.uid }}"
{{- with .Values.nri.config }}
{{ . | trim }}
{{- end }}
{{- end }}

{{- /* The configuration of numalocd by its files. */ -}}
{{- define "numaloc.daemonFiles" -}}
10-numaloc-agent.toml: |
  {{- include "numaloc.daemonConfig" . | nindent 2 }}
{{- if .Values.nri.enabled }}
10-numaloc-nri.toml: |
  {{- include "numaloc.nriGrant" . | nindent 2 }}
{{- end }}
{{- with .Values.daemon.config }}
50-values.toml: |
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the agent reaches the kubelet, by the other container of its pod. */ -}}
{{- define "numaloc.podResources" -}}
/run/pod-resources/kubelet.sock
{{- end }}

{{- /* agent.toml. What values add comes last, because it may have tables. */ -}}
{{- define "numaloc.agentConfig" -}}
endpoint = "unix://{{ .Values.agent.socketDirectory }}/numalocd.sock"
listen = "{{ .Values.agent.listen | default (printf "[::]:%v" .Values.agent.port) }}"
config_maps = [{{ range $at, $map := .Values.configMaps }}{{ if $at }}, {{ end }}"{{ $map.namespace }}/{{ $map.name }}"{{ end }}]
pod_resources = "{{ if .Values.agent.podResources.enabled }}{{ include "numaloc.podResources" . }}{{ end }}"
{{- if .Values.agent.nodeFeature.enabled }}
node_feature = true
{{- end }}
{{- with .Values.agent.config }}
{{ . | trim }}
{{- end }}
{{- end }}

{{- /* Of the directory of numalocd's socket. One that the kubelet made would be root's, and numalocd of the host could not make its socket there.
Without it the pod waits, with the event FailedMount. */ -}}
{{- define "numaloc.socketType" -}}
{{ ternary "DirectoryOrCreate" "Directory" .Values.daemon.enabled }}
{{- end }}

{{/* Asks numalocd whether it answers. It has no port: the socket is in the container. */}}
{{- define "numaloc.daemonProbe" -}}
exec:
  command: [/usr/bin/numalocctl, status, --request-timeout, 10s]
timeoutSeconds: 15
{{- end }}
