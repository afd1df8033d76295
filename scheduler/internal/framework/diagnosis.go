package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// A Diagnosis says why a pod fits on no node.
//
// Upstream: pkg/scheduler/framework Diagnosis, FitError (v1.36).
type Diagnosis struct {
	NodesMax   int                // the number of nodes
	ByNode     map[string]*Status // that Filter or an extender rejected
	Others     *Status            // of the other nodes
	PreFilter  string             // the message of PreFilter if it rejected the pod
	PostFilter string             // the message of PostFilter
	Plugins    sets.Set[string]   // that rejected the pod or a node
}

// Reject records that a plugin rejected a node.
func (d *Diagnosis) Reject(node string, why *Status) {
	if d.ByNode == nil {
		d.ByNode = map[string]*Status{}
	}
	d.ByNode[node] = why
	d.AddPlugin(why.Plugin)
}

// AddPlugin records that a plugin rejected the pod.
func (d *Diagnosis) AddPlugin(name string) {
	if name == "" {
		return
	}
	if d.Plugins == nil {
		d.Plugins = sets.Set[string]{}
	}
	d.Plugins.Insert(name)
}

// StatusOf returns why a node was rejected; nil if it was not.
func (d *Diagnosis) StatusOf(node string) *Status {
	if s, ok := d.ByNode[node]; ok {
		return s
	}
	return d.Others
}

// NoNodes is the message about a pod if there is no node at all.
const NoNodes = "no nodes available to schedule pods"

// Error returns the message of the event and of the pod's condition, to the letter.
func (d *Diagnosis) Error() string {
	if d.NodesMax == 0 {
		return NoNodes
	}
	text := fmt.Sprintf("0/%d nodes are available:", d.NodesMax)
	if d.PreFilter != "" {
		text += " " + d.PreFilter + "."
	} else if reasons := d.reasons(); len(reasons) > 0 {
		text += " " + strings.Join(reasons, ", ") + "."
	}
	if d.PostFilter != "" {
		text += " " + d.PostFilter
	}
	return text
}

// reasons returns how many nodes have each reason, sorted as text.
func (d *Diagnosis) reasons() []string {
	counts := map[string]int{}
	for _, status := range d.ByNode {
		for _, reason := range status.Reasons {
			counts[reason]++
		}
	}
	if others := d.NodesMax - len(d.ByNode); others > 0 && d.Others != nil {
		for _, reason := range d.Others.Reasons {
			counts[reason] += others
		}
	}
	texts := make([]string, 0, len(counts))
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	slices.Sort(texts)
	return texts
}
