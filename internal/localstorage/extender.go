package localstorage

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/volumegroup"
)

// The paths of the extender, below its URL prefix.
const (
	FilterVerb     = "filter"
	PrioritizeVerb = "prioritize"
)

// requestBytesMax bounds the body of a request.
const requestBytesMax = 64 << 20

// Handler returns the scheduler extender: it serves filter and prioritize of upstream's protocol, with
// nodes or, if the scheduler is configured with nodeCacheCapable, with names of nodes. It reads the
// caches of the controller's process, which may lag. A node that is chosen by a stale record is found
// to be full by its manager.
//
// Upstream: k8s.io/kube-scheduler/extender/v1.
func (c *Controller) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /"+FilterVerb, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(args *extenderv1.ExtenderArgs) any { return c.filter(args) })
	})
	mux.HandleFunc("POST /"+PrioritizeVerb, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(args *extenderv1.ExtenderArgs) any { return c.prioritize(args) })
	})
	return mux
}

// answer decodes a request and encodes the result.
func answer(w http.ResponseWriter, r *http.Request, do func(args *extenderv1.ExtenderArgs) any) {
	args := &extenderv1.ExtenderArgs{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestBytesMax)).Decode(args); err != nil {
		http.Error(w, "decode ExtenderArgs: "+err.Error(), http.StatusBadRequest)
		return
	}
	if args.Pod == nil || args.Nodes == nil && args.NodeNames == nil {
		http.Error(w, "ExtenderArgs: Pod, and Nodes or NodeNames, are required", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(do(args)) // the client is gone
}

// nodeNames returns the names of the nodes in a request.
func nodeNames(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	names := make([]string, len(args.Nodes.Items))
	for i := range args.Nodes.Items {
		names[i] = args.Nodes.Items[i].Name
	}
	return names
}

// A demand is what the unbound claims of a pod need of a class.
type demand struct {
	class string
	parameters
	volumes []VolumeStatus // by claim
}

// on returns what a demand needs of a record: in bytes, all volumes and the largest one. A volume that the
// record has does not count. A claim may have it before the cache shows that it is bound.
func (d demand) on(r *NodeLocalStorage) (sum, most int64) {
	for _, v := range d.volumes {
		if r.volume(v.Name) == nil {
			sum, most = sum+v.Size.Value(), max(most, v.Size.Value())
		}
	}
	return sum, most
}

// demands returns what a pod needs of classes of this package, by the name of the class, and its
// claims.
func (c *Controller) demands(pod *corev1.Pod) (all []demand, own map[string]bool, err error) {
	byClass := map[string]*demand{}
	own = map[string]bool{}
	for i := range pod.Spec.Volumes {
		name := podclaims.Name(pod, &pod.Spec.Volumes[i])
		if name == "" || own[pod.Namespace+"/"+name] {
			continue
		}
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			return nil, nil, fmt.Errorf("local storage: claim %s/%s has not been seen yet", pod.Namespace, name)
		}
		own[pod.Namespace+"/"+name] = true
		class := c.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
		if class == nil || claim.Spec.VolumeName != "" {
			continue
		}
		d := byClass[class.Name]
		if d == nil {
			d = &demand{class: class.Name}
			d.parameters, _ = parseClass(class) // there are no disks if it is invalid
			byClass[class.Name] = d
		}
		d.volumes = append(d.volumes, VolumeStatus{Name: volumeName(claim), Size: quantity(requestedBytes(claim))})
	}
	for _, name := range slices.Sorted(maps.Keys(byClass)) {
		all = append(all, *byClass[name])
	}
	return all, own, nil
}

// requestedBytes returns the size of a claim's volume: its request in whole extents.
func requestedBytes(claim *corev1.PersistentVolumeClaim) int64 {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return (requested.Value() + volumegroup.ExtentSize - 1) / volumegroup.ExtentSize * volumegroup.ExtentSize
}

// promised returns the bytes of each record, by name, that are promised to claims but not yet in the
// record: the claim has the selected node, and its volume is not listed. own are claims that do not
// count: they are about to get another node, or the same again.
func (c *Controller) promised(own map[string]bool) map[string]int64 {
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		panic("localstorage: list claims: " + err.Error())
	}
	sums := map[string]int64{}
	for _, claim := range all {
		node := claim.Annotations[storagehelpers.AnnSelectedNode]
		if node == "" || claim.Spec.VolumeName != "" || own[claim.Namespace+"/"+claim.Name] {
			continue
		}
		name := recordName(storagehelpers.GetPersistentVolumeClaimClass(claim), node)
		if r := c.records.Get("", name); r != nil && r.volume(volumeName(claim)) == nil {
			sums[name] += requestedBytes(claim)
		}
	}
	return sums
}

// lacks returns why a node cannot have the volumes of a class that a pod needs; "" if it can. free is
// what is neither used nor promised.
func lacks(d demand, node string, r *NodeLocalStorage, promised int64) string {
	if r == nil {
		return fmt.Sprintf("%s: no local storage of class %s", node, d.class)
	}
	free := quantity(max(r.Status.Free.Value()-promised, 0))
	needed, largest := d.on(r)
	sum, most := quantity(needed), quantity(largest)
	switch {
	case needed == 0:
		return ""
	case d.disksOf(node) == nil:
		return fmt.Sprintf("%s: class %s has no disks there", node, d.class)
	case r.Status.Phase != phaseReady:
		return fmt.Sprintf("%s: local storage of class %s is not ready", node, d.class)
	case free.Value() < needed:
		return fmt.Sprintf("%s: %s free in class %s, %s requested", node, free.String(), d.class, sum.String())
	case r.Status.MaximumVolumeSize.Value() < largest:
		return fmt.Sprintf("%s: volumes of class %s have at most %s, %s requested", node, d.class,
			r.Status.MaximumVolumeSize.String(), most.String())
	default:
		return ""
	}
}

// filter returns the nodes whose records have space for all of a pod's unbound claims. No eviction of
// pods would make space on the others.
func (c *Controller) filter(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	result := &extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	needs, own, err := c.demands(args.Pod)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	var promised map[string]int64
	if len(needs) > 0 {
		promised = c.promised(own)
	}
	kept := map[string]bool{}
	for _, node := range nodeNames(args) {
		var why []string
		for _, d := range needs {
			name := recordName(d.class, node)
			if text := lacks(d, node, c.records.Get("", name), promised[name]); text != "" {
				why = append(why, text)
			}
		}
		if len(why) > 0 {
			result.FailedAndUnresolvableNodes[node] = strings.Join(why, ", ")
		}
		kept[node] = len(why) == 0
	}
	if args.NodeNames != nil {
		names := slices.DeleteFunc(slices.Clone(*args.NodeNames), func(name string) bool { return !kept[name] })
		result.NodeNames = &names
		return result
	}
	result.Nodes = &corev1.NodeList{Items: slices.DeleteFunc(slices.Clone(args.Nodes.Items), func(n corev1.Node) bool { return !kept[n.Name] })}
	return result
}

// prioritize ranks nodes by what is free afterwards: most first, or least for a class with the strategy
// binpack.
func (c *Controller) prioritize(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	needs, own, err := c.demands(args.Pod)
	if err != nil {
		needs = nil
	}
	promised := map[string]int64{}
	if len(needs) > 0 {
		promised = c.promised(own)
	}
	list := extenderv1.HostPriorityList{}
	for _, node := range nodeNames(args) {
		score := int64(0)
		for _, d := range needs {
			name := recordName(d.class, node)
			score += scoreOf(d, c.records.Get("", name), promised[name])
		}
		if len(needs) > 0 {
			score /= int64(len(needs))
		}
		list = append(list, extenderv1.HostPriority{Host: node, Score: score})
	}
	return list
}

// scoreOf returns the score of a record for what a pod needs.
func scoreOf(d demand, r *NodeLocalStorage, promised int64) int64 {
	if r == nil || r.Status.Capacity.Value() == 0 {
		return extenderv1.MinExtenderPriority
	}
	needed, _ := d.on(r)
	left := max(r.Status.Free.Value()-promised-needed, 0)
	score := left * extenderv1.MaxExtenderPriority / r.Status.Capacity.Value()
	if d.binPack {
		return extenderv1.MaxExtenderPriority - score
	}
	return score
}
