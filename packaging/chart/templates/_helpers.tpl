{{- define "trivet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* A key of trivet.yaml, or its default: (list $ "api" "listen" ":5050"). */}}
{{- define "trivet.key" -}}
{{- dig (index . 1) (index . 2) (index . 3) (fromYaml (index . 0).Values.config) -}}
{{- end -}}

{{/* The port of an address to listen on. */}}
{{- define "trivet.port" -}}
{{- include "trivet.key" . | regexFind "[0-9]+$" -}}
{{- end -}}

{{- define "trivet.labels" -}}
app.kubernetes.io/name: trivet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/*
The objects of a manifest of trivet's own (files/ has links to them), for peers that run
as pods: the namespace and the account are this release's, and a token that lasts is not
made. (list $ text)
*/}}
{{- define "trivet.rights" -}}
{{- $top := index . 0 -}}
{{- range (index . 1 | splitList "\n---\n") -}}
{{- $object := fromYaml . -}}
{{- if not (has $object.kind (list "ServiceAccount" "Secret" "")) }}
{{- if $object.subjects -}}
{{- $_ := set $object "subjects" (list (dict "kind" "ServiceAccount" "name" "trivet" "namespace" $top.Release.Namespace)) -}}
{{- end }}
---
{{ toYaml $object }}
{{ end -}}
{{- end -}}
{{- end -}}

{{/* What all containers of a peer have. */}}
{{- define "trivet.env" -}}
{{- $ip := ternary "[$(HOST_IP)]" "$(HOST_IP)" .Values.peers.ipv6 -}}
# The peer is the host's, whatever pod it runs in.
- name: TRIVET_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
# A kube node has many addresses; the others dial the one that it is known by.
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- {name: TRIVET_CLUSTER_ADVERTISE, value: "{{ $ip }}:{{ include "trivet.port" (list . "cluster" "listen" ":7350") }}"}
- {name: TRIVET_GOSSIP_ADVERTISE, value: "{{ $ip }}:{{ include "trivet.port" (list . "gossip" "listen" ":7351") }}"}
{{- end -}}

{{/* What each container of a peer may do; capabilities in the argument: (list "NET_ADMIN"). */}}
{{- define "trivet.security" -}}
# Not within `restricted`: a capability reaches no user but root, as Kubernetes starts
# containers, and the program's file carries none. Root has no other capability: it
# reads and writes root's files alone.
runAsUser: 0
runAsGroup: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- with . }}
  # Not within `restricted`: NET_ADMIN programs the PXE filter and sets the floating IP;
  # NET_RAW asks by ARP whether another host has it, tells the new MAC, and probes for DHCP.
  add: {{ toJson . }}
  {{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "trivet.pull" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "trivet.mounts" -}}
- {name: etc, mountPath: /etc/trivet, readOnly: true}
- {name: data, mountPath: /var/lib/trivet}
- {name: run, mountPath: /run/trivet}
{{- end -}}

{{- define "trivet.volumes" -}}
- name: etc
  projected:
    defaultMode: 0400
    sources:
    - configMap: {name: trivet}
    {{- with .Values.secretName }}
    - secret: {name: {{ . }}}
    {{- end }}
# Not within `restricted`: log, keys and certificates belong to the host. A claim could
# follow a pod to another host, and there would be two of one peer.
- name: data
  hostPath: {path: {{ .Values.peers.dataDir }}, type: DirectoryOrCreate}
- name: run
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end -}}
