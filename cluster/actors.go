package cluster

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An actor says what acts on the objects of a resource.
type actor struct {
	components []string // which act on a new object; a kubelet is named without its node
	stored     string   // why an object has no effect, as a clause; "": it has one
	note       string   // further warning for the creator of an object, a sentence; "": none
}

// actors lists every built-in resource. It is the one place that says which of them are stored
// only; a create of one of these answers with a warning. Move a row up when a component begins to
// act on its resource.
var actors = map[string]actor{
	"cronjobs.batch":                   by("cronjob", "job"),
	"daemonsets.apps":                  by("daemonset"),
	"deployments.apps":                 by("deployment", "replicaset"),
	"jobs.batch":                       by("job"),
	"namespaces":                       by("namespace"),
	"persistentvolumeclaims":           by("pvcontroller"),
	"persistentvolumes":                by("pvcontroller"),
	"poddisruptionbudgets.policy":      by("disruption"),
	"pods":                             {components: []string{"scheduler", "kubelet"}, note: containersNote},
	"replicasets.apps":                 by("replicaset"),
	"replicationcontrollers":           by("replicationcontroller"),
	"resourcequotas":                   by("resourcequota"),
	"statefulsets.apps":                by("statefulset"),
	"volumeattachments.storage.k8s.io": by("attacher"),

	// These have an effect by themselves: the API server, controllers and kubelets read them.
	"configmaps":                             {},
	"controllerrevisions.apps":               {},
	"csidrivers.storage.k8s.io":              {},
	"csinodes.storage.k8s.io":                {},
	"csistoragecapacities.storage.k8s.io":    {},
	"events":                                 {},
	"events.events.k8s.io":                   {},
	"limitranges":                            {},
	"leases.coordination.k8s.io":             {},
	"nodes":                                  {},
	"priorityclasses.scheduling.k8s.io":      {},
	"secrets":                                {},
	"serviceaccounts":                        {},
	"storageclasses.storage.k8s.io":          {},
	"volumeattributesclasses.storage.k8s.io": {},

	"clusterrolebindings.rbac.authorization.k8s.io":                  storedOnly(allAllowed),
	"clusterroles.rbac.authorization.k8s.io":                         storedOnly(allAllowed),
	"deviceclasses.resource.k8s.io":                                  storedOnly(noController),
	"endpoints":                                                      storedOnly(noController),
	"endpointslices.discovery.k8s.io":                                storedOnly(noController),
	"flowschemas.flowcontrol.apiserver.k8s.io":                       storedOnly(noController),
	"horizontalpodautoscalers.autoscaling":                           storedOnly(noController),
	"ingressclasses.networking.k8s.io":                               storedOnly(noController),
	"ingresses.networking.k8s.io":                                    storedOnly(noController),
	"mutatingadmissionpolicies.admissionregistration.k8s.io":         storedOnly(noCalls),
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   storedOnly(noCalls),
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":     storedOnly(noCalls),
	"networkpolicies.networking.k8s.io":                              storedOnly(noTraffic),
	"podtemplates":                                                   storedOnly(noController),
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io":       storedOnly(noController),
	"resourceclaims.resource.k8s.io":                                 storedOnly(noController),
	"resourceslices.resource.k8s.io":                                 storedOnly(noController),
	"rolebindings.rbac.authorization.k8s.io":                         storedOnly(allAllowed),
	"roles.rbac.authorization.k8s.io":                                storedOnly(allAllowed),
	"runtimeclasses.node.k8s.io":                                     storedOnly(noController),
	"services":                                                       storedOnly(noController),
	"validatingadmissionpolicies.admissionregistration.k8s.io":       storedOnly(noCalls),
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": storedOnly(noCalls),
	"validatingwebhookconfigurations.admissionregistration.k8s.io":   storedOnly(noCalls),
}

const (
	noController   = "no controller acts on it"
	allAllowed     = "every request is allowed without it"
	noCalls        = "it counts only in a program with package fake/admission"
	noTraffic      = "there is no network traffic to allow"
	containersNote = "volsim runs no images and commands; a pod is Running when its volumes are mounted"
	shellNote      = "volsim runs no images; its own shell and tools execute the commands of containers"
	processNote    = "volsim runs no images; the commands of containers are processes, with the programs of busybox"
)

// by returns the actor of a resource whose objects components act on.
func by(components ...string) actor { return actor{components: components} }

// storedOnly returns the actor of a resource whose objects have no effect.
func storedOnly(why string) actor { return actor{stored: why} }

// createWarnings returns what the cluster does not do with a new object of a resource: nothing acts
// on it, the components that would do not run, or a pod's containers do not. Custom resources are
// for components of the user.
//
// Differs: a real API server has no such warnings. They are in the Warning headers of responses
// only, so neither the trace nor clients without HTTP see them.
func (c *Cluster) createWarnings(resource schema.GroupResource) []string {
	name := resource.String()
	by, ok := actors[name]
	if !ok {
		return nil
	}
	var missing []string
	for _, each := range by.components {
		if !slices.ContainsFunc(c.components, func(p *componentState) bool {
			kind, _, _ := strings.Cut(p.name, "(")
			return kind == each
		}) {
			missing = append(missing, each)
		}
	}
	switch {
	case by.stored == allAllowed && c.rbac, by.stored == noCalls && c.server.Admitter() != nil:
		return nil
	case by.stored != "":
		return []string{fmt.Sprintf("volsim stores %s; %s", name, by.stored)}
	case len(missing) > 0:
		return []string{fmt.Sprintf("volsim stores %s; component %s, which acts on it, does not run", name, strings.Join(missing, ", "))}
	case by.note == containersNote && c.containers == ShellContainers:
		return []string{shellNote}
	case by.note == containersNote && c.containers == ProcessContainers:
		return []string{processNote}
	case by.note != "":
		return []string{by.note}
	}
	return nil
}
