package localstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// spaceAnnotation is the annotation of a claim that says on which node there is space for it now:
// "node-1: 60Mi free (2)". Schedulers watch no records. The change of the claim makes them try its pods
// again. The number counts the notices, so that each is a change.
const spaceAnnotation = Provisioner + "/space"

// watchSpace queues the classes whose records have more space than before.
func (c *Controller) watchSpace(informer cache.SharedIndexInformer) error {
	changed := func(old, obj any) {
		r, err := records.Parse(obj)
		if err != nil || r.Status.Phase != phaseReady {
			return
		}
		before, err := records.Parse(old)
		if err != nil || before.UID != r.UID || before.Status.Phase != phaseReady ||
			before.Status.Free.Cmp(r.Status.Free) < 0 || before.Status.MaximumVolumeSize.Cmp(r.Status.MaximumVolumeSize) < 0 {
			c.queue.Add(work{kind: spaceWork, name: r.Spec.StorageClassName})
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(nil, obj) }, UpdateFunc: changed,
	})
	return err
}

// promiseEnded queues the class of a claim that was promised space, and is deleted or lost its selected
// node.
func (c *Controller) promiseEnded(claim *corev1.PersistentVolumeClaim) {
	if claim.Spec.VolumeName == "" && claim.Annotations[storagehelpers.AnnSelectedNode] != "" {
		c.queue.Add(work{kind: spaceWork, name: storagehelpers.GetPersistentVolumeClaimClass(claim)})
	}
}

// isWaiting reports whether a claim has neither a volume nor a selected node.
func isWaiting(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil && claim.Annotations[storagehelpers.AnnSelectedNode] == ""
}

// addWaiting queues the claims of a class that wait for a node.
func (c *Controller) addWaiting(class string) {
	if c.class(class) == nil {
		return
	}
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		panic("localstorage: list claims: " + err.Error())
	}
	sortByName(all)
	for _, claim := range all {
		if isWaiting(claim) && storagehelpers.GetPersistentVolumeClaimClass(claim) == class {
			c.queue.Add(work{waitingWork, claim.Namespace, claim.Name})
		}
	}
}

// notify annotates a claim that waits, if there is space for it on a node. It is not written if the claim has
// changed meanwhile.
func (c *Controller) notify(ctx context.Context, key work) error {
	claim, err := c.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || !isWaiting(claim) {
		return nil //nolint:nilerr // it is gone
	}
	space := c.spaceFor(claim)
	if space == "" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion,
		"annotations": map[string]string{spaceAnnotation: fmt.Sprintf("%s (%d)", space, notices(claim)+1)},
	}})
	if err != nil {
		panic("localstorage: annotation patch: " + err.Error())
	}
	_, err = c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// spaceFor returns a node that has space for a claim, and how much; "" if there is none.
func (c *Controller) spaceFor(claim *corev1.PersistentVolumeClaim) string {
	class := c.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if class == nil || !isDelayed(class) {
		return ""
	}
	p, err := parseClass(class)
	if err != nil {
		return ""
	}
	promised := c.promised(nil)
	needed := demand{class: class.Name, parameters: p, volumes: []VolumeStatus{{Name: volumeName(claim), Size: quantity(requestedBytes(claim))}}}
	for _, each := range p.nodes {
		name := recordName(class.Name, each.Node)
		r := c.records.Get("", name)
		if lacks(needed, each.Node, r, promised[name]) == "" {
			free := quantity(r.Status.Free.Value() - promised[name])
			return fmt.Sprintf("%s: %s free", each.Node, free.String())
		}
	}
	return ""
}

// notices returns the number at the end of a claim's annotation.
func notices(claim *corev1.PersistentVolumeClaim) int {
	_, number, _ := strings.Cut(claim.Annotations[spaceAnnotation], "(")
	n, err := strconv.Atoi(strings.TrimSuffix(number, ")"))
	if err != nil {
		return 0
	}
	return n
}
