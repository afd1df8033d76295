package crd

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/volsim/volsim/fake"
)

const (
	cleanup = apiextensionsv1.CustomResourceCleanupFinalizer

	inProgressReason  = "InstanceDeletionInProgress"
	inProgressMessage = "CustomResource deletion is in progress"
	completedReason   = "InstanceDeletionCompleted"
	completedMessage  = "removed all instances"
	neverReason       = "NeverEstablished"
	neverMessage      = "resource was never established"
)

// cleanUp continues the deletion of a definition: it marks the definition as terminating, deletes
// the objects, and removes the finalizer when no object remains.
//
// Differs: it neither waits nor retries. If finalizers keep an object, the cleanup ends when the
// last object is gone. Objects are deleted as they are stored, even if a conversion webhook fails.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/finalizer CRDFinalizer.sync.
func (r *registry) cleanUp(name string) {
	crd := r.stored(name)
	if !isTerminating(crd) {
		return
	}
	if c := apihelpers.FindCRDCondition(crd, apiextensionsv1.Terminating); c == nil || c.Reason != inProgressReason {
		// this write calls cleanUp again
		r.setTerminating(name, apiextensionsv1.ConditionTrue, inProgressReason, inProgressMessage)
		return
	}
	if !isTrue(crd, apiextensionsv1.Established) {
		r.release(name, neverReason, neverMessage)
		return
	}
	r.server.DeleteAll(name)
	if r.server.Count(name) == 0 {
		r.release(name, completedReason, completedMessage)
	}
}

// finishCleanup removes the finalizer of a definition whose last object is gone. A definition has
// the name of its resource.
func (r *registry) finishCleanup(resource string) {
	obj, ok := r.server.Get(definitionsResource, "", resource)
	if !ok || obj.GetDeletionTimestamp() == nil || r.server.Count(resource) > 0 {
		return
	}
	if crd := mustRead(obj.(*fake.CustomObject)); isTerminating(crd) && isTrue(crd, apiextensionsv1.Established) {
		r.release(resource, completedReason, completedMessage)
	}
}

func isTerminating(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd != nil && crd.DeletionTimestamp != nil && slices.Contains(crd.Finalizers, cleanup)
}

// setTerminating sets the condition Terminating of a definition that is being deleted.
func (r *registry) setTerminating(name string, status apiextensionsv1.ConditionStatus, reason, message string) {
	r.updateTerminating(name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		r.setTerminatingCondition(crd, status, reason, message)
	})
}

// release removes the finalizer that keeps a definition while objects exist.
func (r *registry) release(name, reason, message string) {
	r.updateTerminating(name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		r.setTerminatingCondition(crd, apiextensionsv1.ConditionFalse, reason, message)
		crd.Finalizers = slices.DeleteFunc(crd.Finalizers, func(f string) bool { return f == cleanup })
	})
}

func (r *registry) setTerminatingCondition(
	crd *apiextensionsv1.CustomResourceDefinition, status apiextensionsv1.ConditionStatus, reason, message string,
) {
	setCondition(crd, r.server.Timestamp(), apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message,
	})
}

// updateTerminating updates a definition if it is still being deleted.
func (r *registry) updateTerminating(name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	r.server.UpdateStored(definitionsResource, "", name, func(stored fake.Object) fake.Object {
		crd := mustRead(stored.(*fake.CustomObject))
		if !isTerminating(crd) {
			return nil
		}
		change(crd)
		return withDefinition(stored, crd)
	})
}
