package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
)

// Wait runs the world until cond holds. what describes the condition in errors. cond is called
// after each action, and may read Server.
//
// The Wait methods of a live world fail when ctx ends, so ctx needs a deadline. Those of a stepped
// world also fail with sim.ErrQuiescent, as soon as nothing more can happen. The error says what is
// pending and why. That of a wait for an object also has the likely cause, the state of the object,
// its last events and the last error of a Reconciler. Within a User of a stepped world a wait suspends the user, and it is Run that
// fails with all this.
func (c *Cluster) Wait(ctx context.Context, what string, cond func() bool) error {
	return c.await(ctx, what, nil, cond)
}

// WaitForClaim returns when the claim has the phase.
func (c *Cluster) WaitForClaim(ctx context.Context, namespace, name string,
	phase corev1.PersistentVolumeClaimPhase,
) error {
	w := &objectWait{cluster: c, resource: "persistentvolumeclaims", namespace: namespace, name: name}
	return c.await(ctx, fmt.Sprintf("claim %s/%s to be %s", namespace, name, phase), w, func() bool {
		claim, ok := c.claim(namespace, name)
		return ok && claim.Status.Phase == phase
	})
}

// WaitForPod returns when the pod has the phase.
func (c *Cluster) WaitForPod(ctx context.Context, namespace, name string, phase corev1.PodPhase) error {
	w := &objectWait{cluster: c, resource: "pods", namespace: namespace, name: name}
	return c.await(ctx, fmt.Sprintf("pod %s/%s to be %s", namespace, name, phase), w, func() bool {
		pod, ok := c.pod(namespace, name)
		return ok && pod.Status.Phase == phase
	})
}

// WaitForGone returns when the object does not exist. resource is the API's name, such as "pods" or
// "things.example.com"; namespace is "" for cluster-scoped resources.
func (c *Cluster) WaitForGone(ctx context.Context, resource, namespace, name string) error {
	if _, err := c.servedResource(resource, namespace); err != nil {
		return err
	}
	w := &objectWait{cluster: c, resource: resource, namespace: namespace, name: name, gone: true}
	return c.await(ctx, fmt.Sprintf("%s %s/%s to be gone", resource, namespace, name), w, func() bool {
		_, ok := c.server.Get(resource, namespace, name)
		return !ok
	})
}

// WaitFor returns when an object of any resource meets a condition, which has the form of kubectl
// wait's flag --for:
//
//	condition=Ready                   a condition of its status is True
//	condition=Ready=False             … or has another value
//	jsonpath={.status.phase}=Running  a field has a value
//	jsonpath={.status.address}        a field exists
//	create                            it exists
//	delete                            it does not exist
//
// resource is the API's name, such as "pods" or "things.example.com"; namespace is "" for
// cluster-scoped resources. A condition of an older generation of the object does not count, if the
// status says so.
//
// Differs: an object that does not exist yet is waited for. Several values of a jsonpath are one text,
// with spaces between them.
//
// Upstream: kubectl/pkg/cmd/wait (v1.36).
func (c *Cluster) WaitFor(ctx context.Context, resource, namespace, name, condition string) error {
	if condition == "delete" {
		return c.WaitForGone(ctx, resource, namespace, name)
	}
	if _, err := c.servedResource(resource, namespace); err != nil {
		return err
	}
	check, err := parseCondition(condition)
	if err != nil {
		return err
	}
	w := &objectWait{cluster: c, resource: resource, namespace: namespace, name: name, condition: check}
	return c.await(ctx, fmt.Sprintf("%s %s to meet %s", resource, objectKey(namespace, name), condition), w, func() bool {
		obj, ok := c.server.Get(resource, namespace, name)
		return ok && check.holds(obj)
	})
}

// WaitForRest returns when nothing is pending. A live world may still have work of components that
// are the user's own.
func (c *Cluster) WaitForRest(ctx context.Context) error {
	err := c.host.Wait(ctx, "the world to come to rest", func() bool { return len(c.Pending()) == 0 })
	if err != nil {
		return fmt.Errorf("%w%s", err, c.explainPending(""))
	}
	return nil
}

// An activeWait is a wait that has not returned.
type activeWait struct {
	what string
	on   *objectWait // nil: not a wait for one object
}

// await is Wait for a condition of an object, or of the world if on is nil.
func (c *Cluster) await(ctx context.Context, what string, on *objectWait, cond func() bool) error {
	w := &activeWait{what, on}
	c.mu.Lock()
	c.waits = append(c.waits, w)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waits = slices.DeleteFunc(c.waits, func(other *activeWait) bool { return other == w })
	}()
	if err := c.host.Wait(ctx, what, cond); err != nil {
		return fmt.Errorf("%w%s", err, c.explain(on))
	}
	return nil
}

// servedResource returns a resource, or an error if the server does not serve it or if it is not
// namespaced as namespace requires.
func (c *Cluster) servedResource(resource, namespace string) (fake.APIResource, error) {
	r, ok := c.server.Resource(resource)
	switch {
	case !ok:
		return r, fmt.Errorf("wait for resource %q: not served by the API server; use a plural name such as \"pods\" or \"things.example.com\"", resource)
	case r.Namespaced && namespace == "":
		return r, fmt.Errorf("wait for resource %q: it is namespaced; specify a namespace", resource)
	case !r.Namespaced && namespace != "":
		return r, fmt.Errorf("wait for resource %q in namespace %q: it is cluster-scoped; specify no namespace", resource, namespace)
	}
	return r, nil
}

// Pending describes what the control plane has yet to do, as far as the API objects show it: see
// invariant.PendingObjects, specs and pods that a workload controller has not seen, rollouts and jobs that
// nothing holds up, containers that exit or are restarted, dependents whose owners are gone, and snapshots
// that are not ready or are being deleted.
func (c *Cluster) Pending() []string {
	var pending []string
	for _, d := range c.pendingObjects() {
		pending = append(pending, d.String())
	}
	return pending
}

// Leaks describes what exists although no API object refers to it. Call it in a world whose claims
// and pods are all gone. Snapshots that contents name may stay. It reads the drivers, the devices, the nodes' mounts and the machine of the
// PersistentVolume controller.
func (c *Cluster) Leaks() ([]string, error) {
	leaks, err := c.driver.leaks()
	for _, d := range c.drivers {
		volumes, errVolumes := d.leaks()
		snapshots, errSnapshots := d.leakedSnapshots(context.Background())
		leaks, err = slices.Concat(leaks, volumes, snapshots), errors.Join(err, errVolumes, errSnapshots)
	}
	leaks = c.withoutSnapshots(leaks)
	volumes, errVolumes := c.machine.Volumes()
	for _, v := range volumes {
		leaks = append(leaks, "directory "+v.Path)
	}
	return append(invariant.Leaks(c.server), leaks...), errors.Join(err, errVolumes)
}

func (c *Cluster) claim(namespace, name string) (*corev1.PersistentVolumeClaim, bool) {
	o, ok := c.server.Get("persistentvolumeclaims", namespace, name)
	if !ok {
		return nil, false
	}
	return o.(*corev1.PersistentVolumeClaim), true
}

func (c *Cluster) pod(namespace, name string) (*corev1.Pod, bool) {
	o, ok := c.server.Get("pods", namespace, name)
	if !ok {
		return nil, false
	}
	return o.(*corev1.Pod), true
}

// isRegistered reports whether the API server has all nodes and the drivers on each of them.
func (c *Cluster) isRegistered() bool {
	for _, n := range c.nodes {
		if _, ok := c.server.Get("csinodes", "", n.name); !ok {
			return false
		}
		for _, d := range n.drivers {
			if !c.hasDriver(n.name, d.Name) && !d.stopped.Load() {
				return false
			}
		}
	}
	if len(c.drivers) == 0 || !c.drivers[0].builtIn {
		return true
	}
	_, class := c.server.Get("storageclasses", "", ClassName)
	_, driver := c.server.Get("csidrivers", "", c.drivers[0].Name)
	return class && driver && c.hasSnapshotClasses(c.drivers[0])
}
