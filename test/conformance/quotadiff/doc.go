// Package quotadiff compares internal/quota with upstream's evaluators of quotas, and the limits that
// the API server enforces with upstream's LimitRanger, over drawn objects.
package quotadiff
