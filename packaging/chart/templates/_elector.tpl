{{/*
A candidate of an election, as a container next to a program's own, and its volume, for
charts that depend on this one (docs/elector.md, within `restricted`):

  containers:
  {{- include "trivet.elector.container" (dict "image" IMAGE "election" "kuryr-controller" "namespace" "kube-system"
      "servers" "http://h1:5050,http://h2:5050,http://h3:5050" "port" 16401 "ttl" "5s") | nindent 2 }}
  volumes:
  {{- include "trivet.elector.volume" (dict "secretName" "trivet-elector") | nindent 2 }}

The pod needs `securityContext: {fsGroup: 950}`.
*/}}
{{- define "trivet.elector.container" -}}
- name: leader-elector
  image: {{ .image }}
  command: [trivet, elector]
  args:
  - "--election={{ .election }}"
  - "--http=0.0.0.0:{{ .port }}"
  - "--election-namespace={{ .namespace }}"
  - "--ttl={{ .ttl }}"
  {{- range .arguments }}
  - {{ . | quote }}
  {{- end }}
  env:
  - {name: TRIVET_SERVER, value: {{ .servers | quote }}}
  - {name: TRIVET_CREDENTIALS, value: /etc/trivet/elector}
  ports: [{containerPort: {{ .port }}, protocol: TCP}]
  securityContext:
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 950
    runAsGroup: 950
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
  - {name: trivet, mountPath: /etc/trivet, readOnly: true}
  livenessProbe:
    httpGet: {path: /, port: {{ .port }}}
    periodSeconds: 2
    timeoutSeconds: 1
    failureThreshold: 1
{{- end -}}

{{- define "trivet.elector.volume" -}}
- name: trivet
  secret: {secretName: {{ .secretName }}, defaultMode: 0440}
{{- end -}}
