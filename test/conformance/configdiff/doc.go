// Package configdiff compares internal/schedulerconfig with upstream's reading, defaulting and checking of
// KubeSchedulerConfigurations, and with the plugins of upstream's frameworks, over drawn configurations.
package configdiff
