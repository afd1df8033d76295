package healthmonitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/sim"
)

// notReadyMax is how long a node may be NotReady before it has failed.
//
// Upstream: external-health-monitor pkg/controller DefaultNodeNotReadyTimeDuration (0.18).
const notReadyMax = 5 * time.Minute

// The reasons of the events about nodes.
const (
	reasonNodeFailed    = "NodeFailed"
	reasonNodeRecovered = "NodeRecovered"
)

// A nodeWatcher reports the claims that are used on nodes that have failed.
//
// Differs: a deleted node is reported; upstream's watcher panics. A failure is reported again every five
// minutes; upstream every ten, because it forgets how long the node has been NotReady.
//
// Upstream: external-health-monitor pkg/controller NodeWatcher (0.18).
type nodeWatcher struct {
	*controller
	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
	queue    *sim.Queue[string]
	notReady map[string]time.Time // since when nodes are NotReady, by name
	failed   map[string]bool      // nodes that are reported
}

func watchNodes(c *controller) {
	core := c.cfg.Informers.Core().V1()
	w := &nodeWatcher{
		controller: c, nodes: core.Nodes().Lister(), pods: core.Pods().Lister(),
		queue:    sim.NewQueue[string](c.cfg.Process, sim.QueueConfig{Name: "nodes", Background: true}),
		notReady: map[string]time.Time{}, failed: map[string]bool{},
	}
	core.Pods().Informer()
	eventhandler.Add(core.Nodes().Informer(), func(old, node *corev1.Node) {
		if IsNodeChange(old, node) {
			w.queue.Add(node.Name)
		}
	}, func(node *corev1.Node) { w.queue.Add(node.Name) })
	w.queue.Work(w.sync)
}

// IsNodeChange reports whether the node watcher must process a change of a node. before is nil for a
// new node, after is nil for a deleted one.
func IsNodeChange(before, after *corev1.Node) bool {
	switch {
	case after == nil:
		return true
	case before == nil:
		return !isReady(after)
	default:
		return isReady(before) != isReady(after)
	}
}

// isReady reports whether a node is ready. One without the condition counts as ready: it has not
// started yet.
func isReady(node *corev1.Node) bool {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return i < 0 || node.Status.Conditions[i].Status == corev1.ConditionTrue
}

// sync reports a change of one node.
func (w *nodeWatcher) sync(_ context.Context, name string) error {
	node, err := w.nodes.Get(name)
	switch {
	case err != nil: // deleted
		w.reportFailed(name)
		delete(w.notReady, name)
		delete(w.failed, name)
	case isReady(node):
		delete(w.notReady, name)
		if w.failed[name] {
			delete(w.failed, name)
			w.reportRecovered(name)
		}
	default:
		w.syncNotReady(name)
	}
	return nil
}

func (w *nodeWatcher) syncNotReady(name string) {
	now := w.cfg.Process.Now()
	since, known := w.notReady[name]
	if !known {
		since, w.notReady[name] = now, now
	}
	if remains := notReadyMax - now.Sub(since); remains > 0 {
		w.queue.AddAfter(name, remains)
		return
	}
	w.failed[name] = true
	w.reportFailed(name)
	w.queue.AddAfter(name, notReadyMax)
}

func (w *nodeWatcher) reportFailed(node string) {
	w.eachClaimOn(node, func(claim *corev1.PersistentVolumeClaim, pods []string) {
		w.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonNodeFailed,
			fmt.Sprintf("Pods: [ %s ] consuming PVC: %s in namespace: %s are now on a failed node: %s",
				strings.Join(pods, " "), claim.Name, claim.Namespace, node))
	})
}

func (w *nodeWatcher) reportRecovered(node string) {
	w.eachClaimOn(node, func(claim *corev1.PersistentVolumeClaim, _ []string) {
		w.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonNodeRecovered, "Node: "+node+" recovered")
	})
}

// eachClaimOn passes the claims of the driver's volumes that pods on a node use, with the names of
// these pods.
func (w *nodeWatcher) eachClaimOn(node string, use func(claim *corev1.PersistentVolumeClaim, pods []string)) {
	users := w.podsByClaim(node)
	for _, volume := range w.boundVolumes() {
		claim := w.claimOf(volume)
		if claim == nil {
			continue
		}
		if pods := users[claim.Namespace+"/"+claim.Name]; len(pods) > 0 {
			use(claim, slices.Sorted(maps.Keys(pods)))
		}
	}
}

// podsByClaim returns the names of the pods on a node by the claims that they use.
func (w *nodeWatcher) podsByClaim(node string) map[string]map[string]bool {
	pods, err := w.pods.List(labels.Everything())
	if err != nil {
		panic("healthmonitor: list pods: " + err.Error()) // the cache has no errors
	}
	users := map[string]map[string]bool{}
	for _, pod := range pods {
		if pod.Spec.NodeName != node {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := podclaims.Name(pod, &pod.Spec.Volumes[i])
			if claim == "" {
				continue
			}
			key := pod.Namespace + "/" + claim
			if users[key] == nil {
				users[key] = map[string]bool{}
			}
			users[key][pod.Name] = true
		}
	}
	return users
}
