{{- define "gristmill.labels" -}}
app.kubernetes.io/name: gristmill
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gristmill.part" -}}
app.kubernetes.io/name: gristmill
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "gristmill.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gristmill.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Environment of every Dagster process. Secrets by reference only. */ -}}
{{- define "gristmill.env" -}}
- {name: DAGSTER_HOME, value: /opt/dagster/home}
- {name: DAGSTER_EVENT_BATCH_SIZE, value: "1000"}
- {name: DAGSTER_DISABLE_TELEMETRY, value: "1"}
- {name: GRISTMILL_PIPELINE, value: /opt/gristmill/site/pipeline.yaml}
- {name: NUMBA_CACHE_DIR, value: /tmp/numba}
- name: DAGSTER_PG_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.secrets.postgres }}, key: password}}
{{- end }}

{{- define "gristmill.mounts" -}}
- {name: home, mountPath: /opt/dagster/home}
- {name: instance, mountPath: /opt/dagster/home/dagster.yaml, subPath: dagster.yaml}
- {name: site, mountPath: /opt/gristmill/site}
- {name: tmp, mountPath: /tmp}
{{- if .Values.site.models.claim }}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}

{{- define "gristmill.volumes" -}}
- {name: home, emptyDir: {}}
- {name: instance, configMap: {name: {{ .Release.Name }}-instance}}
- {name: site, configMap: {name: {{ .Release.Name }}-site}}
- {name: tmp, emptyDir: {}}
{{- if .Values.site.models.claim }}
- {name: models, persistentVolumeClaim: {claimName: {{ .Values.site.models.claim }}, readOnly: true}}
{{- end }}
{{- end }}

{{- define "gristmill.pull" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What a rollout must follow: pods do not notice a changed config map. */ -}}
{{- define "gristmill.checksum" -}}
checksum/config: {{ printf "%s%s" (include (print $.Template.BasePath "/instance.yaml") .) (include (print $.Template.BasePath "/site.yaml") .) | sha256sum }}
{{- end }}
