package page

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/cluster"
)

// actors lists, by resource, the components that act on an object of it. A resource without a row
// has an effect by itself, or is for components that users bring.
var actors = map[string][]string{
	"namespaces":                       {"namespace"},
	"persistentvolumeclaims":           {"pvcontroller"},
	"persistentvolumes":                {"pvcontroller"},
	"pods":                             {"scheduler", "kubelet"},
	"volumeattachments.storage.k8s.io": {"attacher"},

	"csistoragecapacities.storage.k8s.io":      nil,
	"daemonsets.apps":                          nil,
	"deployments.apps":                         nil,
	"deviceclasses.resource.k8s.io":            nil,
	"endpoints":                                nil,
	"endpointslices.discovery.k8s.io":          nil,
	"flowschemas.flowcontrol.apiserver.k8s.io": nil,
	"limitranges":                              nil,
	"poddisruptionbudgets.policy":              nil,
	"podtemplates":                             nil,
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": nil,
	"replicasets.apps":                              nil,
	"replicationcontrollers":                        nil,
	"resourceclaims.resource.k8s.io":                nil,
	"resourcequotas":                                nil,
	"resourceslices.resource.k8s.io":                nil,
	"runtimeclasses.node.k8s.io":                    nil,
	"services":                                      nil,
	"statefulsets.apps":                             nil,
	"clusterrolebindings.rbac.authorization.k8s.io": nil,
	"clusterroles.rbac.authorization.k8s.io":        nil,
	"rolebindings.rbac.authorization.k8s.io":        nil,
	"roles.rbac.authorization.k8s.io":               nil,
}

// CreateWarnings returns a function that says what a cluster does not do with a new object: no
// component acts on it, or a pod's containers do not run.
//
// Differs: a real API server has no such warnings. They are part of the answers by HTTP only, so
// neither the trace nor clients within the process see them.
func CreateWarnings(c *cluster.Cluster) func(schema.GroupResource) []string {
	running := map[string]bool{}
	for _, name := range c.Components() {
		name, _, _ = strings.Cut(name, "(")
		running[name] = true
	}
	return func(resource schema.GroupResource) []string {
		name := resource.String()
		wanted, listed := actors[name]
		var missing []string
		for _, each := range wanted {
			if !running[each] {
				missing = append(missing, each)
			}
		}
		switch {
		case listed && len(wanted) == 0:
			return []string{fmt.Sprintf("volsim stores %s; no controller acts on it", name)}
		case len(missing) > 0:
			return []string{fmt.Sprintf("volsim stores %s; component %s, which acts on it, does not run", name, strings.Join(missing, ", "))}
		case name == "pods":
			return []string{"volsim runs no images and commands; a pod is Running when its volumes are mounted"}
		}
		return nil
	}
}
