package kubelet

// MetricsOf returns the metrics of a summary.
var MetricsOf = metricsOf
