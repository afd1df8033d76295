package extendertest

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/yaml"
)

// A Case is an answer of an extender, and what follows from it.
type Case struct {
	Name   string
	Ask    string // filter, prioritize, bind, preempt
	Names  bool   // nodeCacheCapable
	Status int    // 0: 200
	Body   string
	Want   string
}

// Read returns the cases of a file.
func Read(file string) ([]*Case, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*Case
	return all, yaml.UnmarshalStrict(text, &all)
}

// ServeHTTP answers any request.
func (c *Case) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if c.Status != 0 {
		w.WriteHeader(c.Status)
	}
	_, _ = w.Write([]byte(c.Body))
}

// NewPod returns a pod whose UID is its name.
func NewPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

// NewNodes returns nodes, and a pod on each that has its name.
func NewNodes(names ...string) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for _, name := range names {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		pod := NewPod(name)
		pod.Spec.NodeName = name
		pods = append(pods, pod)
	}
	return nodes, pods
}

// Filtered describes the answer to filter: the accepted nodes, and the others with reasons.
func Filtered(accepted []string, failed, unresolvable extenderv1.FailedNodesMap) string {
	return strings.Join(accepted, " ") + reasons(" failed", failed) + reasons(" unresolvable", unresolvable)
}

func reasons(what string, of extenderv1.FailedNodesMap) string {
	for _, node := range slices.Sorted(maps.Keys(of)) {
		what += " " + node + "=" + of[node]
	}
	if len(of) == 0 {
		return ""
	}
	return what
}

// Prioritized describes the answer to prioritize.
func Prioritized(scores extenderv1.HostPriorityList, weight int64) string {
	var words []string
	for _, s := range scores {
		words = append(words, fmt.Sprintf("%s=%d", s.Host, s.Score))
	}
	return fmt.Sprintf("%s weight %d", strings.Join(words, " "), weight)
}

// Preempted describes the answer to preempt.
func Preempted(victims map[string]*extenderv1.Victims) string {
	var words []string
	for _, node := range slices.Sorted(maps.Keys(victims)) {
		names := []string{}
		for _, pod := range victims[node].Pods {
			names = append(names, pod.Name)
		}
		words = append(words, fmt.Sprintf("%s: %v %d", node, names, victims[node].NumPDBViolations))
	}
	return strings.Join(words, " ")
}
