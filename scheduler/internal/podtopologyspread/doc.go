// Package podtopologyspread spreads pods over domains of nodes: those with the same value of a label.
//
// A constraint of a pod limits how many more pods a domain may have than the one with the fewest. Filter applies
// those that must hold, Score those that should. A pod without constraints gets default ones, which count the
// pods of its services and of its controller: unless configured otherwise, it should be spread over hosts and
// zones.
//
// Upstream: pkg/scheduler/framework/plugins/podtopologyspread (v1.36).
//
// Differs: a node that is not ready counts as tainted; see framework.UntoleratedTaint.
package podtopologyspread
