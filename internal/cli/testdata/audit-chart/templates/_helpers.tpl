{{- define "shop.name" -}}
{{ .Release.Name }}-web
{{- end -}}
