package fake

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake/internal/rules"
	"github.com/volsim/volsim/sim"
)

// This file is the write pipeline, which is the same for every resource: default, admit, validate,
// check preconditions (UID, resourceVersion), commit. It works without the lock on the object as it
// was read. If another writer was faster, the commit fails and the pipeline runs again, so one
// writer always makes progress.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry (Store.Create, Update),
// pkg/registry/rest (BeforeCreate, BeforeUpdate).

const (
	staleMsg     = "the object has been modified; please apply your changes to the latest version and try again"
	createRVMsg  = "resourceVersion should not be set on objects to be created"
	namespaceMsg = "the namespace of the provided object does not match the namespace sent on the request"

	generateMax = 8 // attempts with a generateName
)

// A writer is the server as one write sees it.
type writer struct {
	*Server
	changes   *sim.Commit                // nil: a write of the server itself, or of a host that runs one at a time
	user      *authenticationv1.UserInfo // nil: system:admin
	admission *admission                 // nil: nothing admits it; see Server.SetAdmitter
	object    string                     // in the trace, which the name of an event in the log usually equals; "": unknown
}

// commit is Server.commit, in the order of the writer's host.
func (s writer) commit(t *table, kind watch.EventType, key string, before, after Object) bool {
	return s.commitSized(t, kind, key, before, after, sizeOf(after))
}

// commitSized is commit for an object of a known size.
func (s writer) commitSized(t *table, kind watch.EventType, key string, before, after Object, size int) bool {
	if s.changes == nil {
		return s.commitNamed(t, kind, key, s.object, before, after, size)
	}
	return s.changes.Try(func() bool { return s.commitNamed(t, kind, key, s.object, before, after, size) })
}

// A writeResult is the result of a write.
type writeResult struct {
	object  Object // the response; read-only
	before  Object // stored before; nil for a creation
	after   Object // stored after, or the last state; nil: no commit
	deleted bool   // the object was removed

	created bool // there was none before

	warnings []string // for the writer
}

// create stores an object, which becomes the store's.
func (s writer) create(k *kind, namespace string, obj Object, dryRun bool) (writeResult, error) {
	m := metaOf(obj)
	clean(obj)
	if err := inNamespace(k, m, namespace); err != nil {
		return writeResult{}, err
	}
	if err := s.admitNamespace(k, namespace, m); err != nil {
		return writeResult{}, err
	}
	if err := s.restrictNode(nodeWrite{k: k, op: admissionv1.Create, namespace: namespace, name: m.Name, obj: obj}); err != nil {
		return writeResult{}, err
	}
	if err := k.mayCreate(m.Name); err != nil {
		return writeResult{}, err
	}
	obj, err := s.admitCreation(k, obj)
	if err != nil {
		return writeResult{}, err
	}
	if err := s.checkEscalation(k, obj, nil); err != nil {
		return writeResult{}, err
	}
	m = metaOf(obj)
	generate := m.Name == "" && m.GenerateName != ""
	for try := 1; ; try++ {
		if generate {
			m.Name = s.generateName(m.GenerateName)
		}
		if err := s.prepareCreate(k, obj); err != nil {
			return writeResult{}, err
		}
		size := 0
		if !dryRun {
			var err error
			if size, err = storable(k, obj); err != nil {
				return writeResult{}, err
			}
			if rv, err := strconv.ParseUint(cmp.Or(m.ResourceVersion, "0"), 10, 64); err == nil && rv > 0 {
				return writeResult{}, internalError(createRVMsg)
			}
		}
		if err := s.admission.validate(obj, nil); err != nil {
			return writeResult{}, err
		}
		if err := s.charge(k, mainResource, obj, nil, dryRun); err != nil {
			return writeResult{}, err
		}
		t, key := s.tableOf(k), key(m.Namespace, m.Name)
		if s.lookup(t, key) == nil {
			warnings := k.warnings(obj, nil)
			if dryRun {
				obj, err := k.rehearsed(obj)
				return writeResult{object: obj, created: true, warnings: warnings}, err
			}
			obj, ok, err := s.put(t, k, watch.Added, key, nil, obj, size)
			switch {
			case err != nil:
				return writeResult{}, err
			case ok:
				return writeResult{object: obj, after: obj, created: true, warnings: warnings}, nil
			}
			if s.closed(t) {
				return writeResult{}, notFound()
			}
		}
		if !generate || try == generateMax {
			return writeResult{}, apierrors.NewAlreadyExists(k.groupResource(), m.Name)
		}
	}
}

// prepareCreate sets what the server decides about an object to be created, and validates it.
func (s *Server) prepareCreate(k *kind, obj Object) error {
	m := metaOf(obj)
	m.CreationTimestamp = s.timestamp()
	m.UID = s.newUID(k.resource, key(m.Namespace, m.Name))
	k.prepareCreate(m.CreationTimestamp, obj, nil)
	errs := append(rules.ValidateMeta(m, k.namespaced, k.name, k.custom != nil), k.validateCreate(obj, nil)...)
	if errs = append(errs, s.validateConfiguration(k, obj, nil)...); len(errs) > 0 {
		return invalid(k, m.Name, errs)
	}
	return s.limit(k, obj, nil)
}

// A change is a write to an object that may exist.
type change struct {
	namespace, name string
	subresource     subresource
	dryRun          bool
	applier
	// replace: apply returns what the writer sent, and a UID in it is a precondition.
	replace bool
	// create: apply may create the object.
	create bool
}

// A subresource is the subresource that a change is written through.
type subresource string

const (
	mainResource         subresource = ""
	statusSubresource    subresource = "status"
	finalizeSubresource  subresource = "finalize"            // of namespaces: spec.finalizers may be written
	bindingSubresource   subresource = "binding"             // of pods: apply has validated everything
	ephemeralSubresource subresource = "ephemeralcontainers" // of pods: spec.ephemeralContainers may be written
	scaleSubresource     subresource = "scale"               // in managed fields only: Scale is a kind of its own
)

// A verdict is what to do with an object.
type verdict int

const (
	verdictStore  verdict = iota // store it
	verdictKeep                  // leave what is stored
	verdictRemove                // remove what is stored
)

// update executes a change.
func (s writer) update(k *kind, c change) (writeResult, error) {
	t, key := s.tableOf(k), key(c.namespace, c.name)
	for {
		stored := s.lookup(t, key)
		old, err := k.read(stored)
		if err != nil {
			return writeResult{}, err
		}
		if old == nil && !c.create && !(c.replace && k.allowCreateOnUpdate) {
			return writeResult{}, apierrors.NewNotFound(k.groupResource(), c.name)
		}
		obj, err := c.apply(old)
		if err != nil {
			return writeResult{}, err
		}
		if old == nil {
			obj.SetResourceVersion("")
			s.admission.as(admissionv1.Create)
			done, err := s.create(k, c.namespace, obj, c.dryRun)
			if c.create && apierrors.IsAlreadyExists(err) {
				continue
			}
			return done, err
		}
		if err := s.restrictNode(nodeWrite{
			k: k, op: admissionv1.Update, sub: string(c.subresource), namespace: c.namespace, name: c.name, obj: obj, old: old,
		}); err != nil {
			return writeResult{}, err
		}
		if obj, err = s.admitChange(k, obj, old); err != nil {
			return writeResult{}, err
		}
		if err := s.checkEscalation(k, obj, old); err != nil {
			return writeResult{}, err
		}
		obj, verdict, err := s.prepareUpdate(k, c, obj, old)
		if err == nil {
			err = s.admission.validate(obj, old)
		}
		if err != nil {
			return writeResult{}, err
		}
		var warnings []string
		if c.subresource == mainResource || k.custom != nil {
			warnings = k.warnings(obj, old)
		}
		if verdict == verdictStore {
			if err := s.charge(k, c.subresource, obj, old, c.dryRun); err != nil {
				return writeResult{}, err
			}
		}
		switch {
		case verdict == verdictKeep && !k.outdated(stored):
			return writeResult{object: old, warnings: warnings}, nil
		case c.dryRun:
			obj, err := k.rehearsed(obj)
			return writeResult{object: obj, warnings: warnings}, err
		case verdict == verdictRemove:
			if last := k.shallow(stored); s.commit(t, watch.Deleted, key, stored, last) {
				return writeResult{object: obj, before: old, after: last, deleted: true, warnings: warnings}, nil
			}
		default:
			size, err := storable(k, obj)
			if err != nil {
				return writeResult{}, err
			}
			obj, ok, err := s.put(t, k, watch.Modified, key, stored, obj, size)
			switch {
			case err != nil:
				return writeResult{}, err
			case ok:
				return writeResult{object: obj, before: old, after: obj, warnings: warnings}, nil
			}
		}
	}
}

// prepareUpdate turns a sent object into the object to store, and returns what to do with it.
func (s *Server) prepareUpdate(k *kind, c change, obj, old Object) (Object, verdict, error) {
	m, oldMeta := metaOf(obj), metaOf(old)
	clean(obj)
	if err := inNamespace(k, m, c.namespace); err != nil {
		return nil, 0, err
	}
	if err := preconditions(k, c, m, oldMeta); err != nil {
		return nil, 0, err
	}
	if c.subresource != bindingSubresource {
		var err error
		if obj, err = s.reconcile(k, c.subresource, obj, old); err != nil {
			return nil, 0, err
		}
		m = metaOf(obj)
	}
	keepTimes(obj, old)
	switch {
	case isLastUpdate(m, oldMeta) && hasNoSpecFinalizers(obj):
		return obj, verdictRemove, nil
	case maps.Equal(m.Annotations, oldMeta.Annotations) && same(obj, old):
		return obj, verdictKeep, nil
	default:
		return obj, verdictStore, nil
	}
}

// reconcile sets defaults, admits and validates what was sent, after restoring what may not be
// written.
func (s *Server) reconcile(k *kind, through subresource, obj, old Object) (Object, error) {
	k.defaults(obj)
	obj = split(k, obj, old, through == statusSubresource)
	m, oldMeta := metaOf(obj), metaOf(old)
	m.Generation = oldMeta.Generation
	switch through {
	case statusSubresource:
		k.prepareStatus(s.timestamp(), obj, old)
	case mainResource:
		k.prepareUpdate(s.timestamp(), obj, old)
	case ephemeralSubresource:
		rules.PrepareEphemeralContainers(obj.(*corev1.Pod), old.(*corev1.Pod))
	}
	keepMeta(m, oldMeta)
	errs := rules.ValidateMetaUpdate(m, oldMeta, k.custom != nil)
	switch through {
	case statusSubresource:
		errs = append(errs, k.validateStatus(obj, old)...)
	case ephemeralSubresource:
		errs = append(errs, rules.ValidateEphemeralContainers(obj.(*corev1.Pod), old.(*corev1.Pod))...)
	case finalizeSubresource:
		errs = append(errs, rules.ValidateNamespaceFinalize(obj.(*corev1.Namespace))...)
	default:
		errs = append(errs, k.validateUpdate(obj, old)...)
		errs = append(errs, s.validateConfiguration(k, obj, old)...)
	}
	if len(errs) > 0 {
		return nil, invalid(k, m.Name, errs)
	}
	if through == mainResource {
		if err := s.limit(k, obj, old); err != nil {
			return nil, err
		}
		return obj, s.admitUpdate(obj, old)
	}
	return obj, nil
}

// preconditions checks the UID and the resourceVersion that were sent.
func preconditions(k *kind, c change, m, oldMeta *metav1.ObjectMeta) error {
	if c.replace && m.UID != "" && m.UID != oldMeta.UID {
		return apierrors.NewConflict(k.groupResource(), m.Name, uidError(k, c.namespace, c.name, m.UID, oldMeta.UID))
	}
	switch {
	case m.ResourceVersion == oldMeta.ResourceVersion:
		return nil
	case m.ResourceVersion != "" && m.ResourceVersion != "0":
		if _, err := strconv.ParseUint(m.ResourceVersion, 10, 64); err != nil {
			return internalError(err.Error())
		}
		return apierrors.NewConflict(k.groupResource(), m.Name, errors.New(staleMsg))
	case k.allowUnconditionalUpdate:
		m.ResourceVersion = oldMeta.ResourceVersion
		return nil
	default:
		return apierrors.NewInvalid(schema.GroupKind{Group: k.gvk.Group, Kind: k.resource}, m.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
}

// split restores what may not be written: the status, or all but the status.
func split(k *kind, obj, old Object, status bool) Object {
	switch {
	case k.copyStatus == nil:
		return obj
	case !status:
		k.copyStatus(obj, old)
		return obj
	}
	to := k.shallow(old)
	k.copyStatus(to, obj)
	if k.statusUpdatesMetadata {
		*metaOf(to) = *metaOf(obj)
	} else {
		to.SetResourceVersion(obj.GetResourceVersion())
		to.SetManagedFields(obj.GetManagedFields())
	}
	return to
}

// keepMeta restores metadata that no update may change.
func keepMeta(m, oldMeta *metav1.ObjectMeta) {
	if m.UID == "" {
		m.UID = oldMeta.UID
	}
	m.CreationTimestamp = oldMeta.CreationTimestamp
	if oldMeta.DeletionTimestamp != nil {
		m.DeletionTimestamp = oldMeta.DeletionTimestamp
	}
	if m.DeletionGracePeriodSeconds == nil {
		m.DeletionGracePeriodSeconds = oldMeta.DeletionGracePeriodSeconds
	}
}

// isLastUpdate reports whether an update removes the last finalizer of a deleted object.
func isLastUpdate(m, oldMeta *metav1.ObjectMeta) bool {
	return len(m.Finalizers) == 0 && oldMeta.DeletionTimestamp != nil &&
		(oldMeta.DeletionGracePeriodSeconds == nil || *oldMeta.DeletionGracePeriodSeconds == 0)
}

// hasNoSpecFinalizers reports whether only the finalizers in its metadata keep an object. A
// namespace also has finalizers in its spec.
func hasNoSpecFinalizers(obj Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return !ok || len(ns.Spec.Finalizers) == 0
}

// inNamespace sets the namespace of the request, or none. It returns an error if the object has
// another.
func inNamespace(k *kind, m *metav1.ObjectMeta, namespace string) error {
	switch {
	case !k.namespaced:
		m.Namespace = ""
	case m.Namespace == "":
		m.Namespace = namespace
	case m.Namespace != namespace:
		return apierrors.NewBadRequest(namespaceMsg)
	}
	return nil
}

// same reports whether two objects have the same wire form.
func same(a, b any) bool {
	if c, ok := a.(*CustomObject); ok {
		d := b.(*CustomObject)
		return rules.Same(&c.ObjectMeta, &d.ObjectMeta) && equality.Semantic.DeepEqual(c.Content, d.Content)
	}
	return rules.Same(a.(rules.Message), b.(rules.Message))
}

func uidError(k *kind, namespace, name string, want, actual types.UID) error {
	folder := k.resource
	if k.custom != nil {
		folder = k.gvk.Group + "/" + folder
	}
	return storageError(folder, key(namespace, name), preconditionError("UID", want, actual))
}

// storageError returns the real store's error about a failed precondition.
func storageError(folder, key string, err error) error {
	return fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: %w", folder, key, err)
}

// invalidMax is the limit of errors in an answer.
//
// Differs: the real server has no limit.
const invalidMax = 5000

func invalid(k *kind, name string, errs field.ErrorList) error {
	of := k.gvk.GroupKind()
	if k.invalid.Kind != "" {
		of = k.invalid
	}
	if len(errs) < joinedMax {
		return apierrors.NewInvalid(of, name, errs)
	}
	return manyInvalid(of, name, errs[:min(len(errs), invalidMax)])
}

// joinedMax is the number of errors from which on upstream joins them slowly.
const joinedMax = 200

// manyInvalid is apierrors.NewInvalid, which joins errors in quadratic time.
func manyInvalid(of schema.GroupKind, name string, errs field.ErrorList) error {
	err := apierrors.NewInvalid(of, name, nil)
	seen := make(map[string]bool, len(errs))
	var all []string
	for _, e := range errs {
		body := e.ErrorBody()
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: metav1.CauseType(e.Type), Message: body, Field: e.Field})
		if msg := e.Error(); !seen[msg] {
			seen[msg] = true
			all = append(all, msg)
		}
	}
	joined := strings.Join(all, ", ")
	if len(all) > 1 {
		joined = "[" + joined + "]"
	}
	err.ErrStatus.Message += ": " + joined
	return err
}

// internalError returns the status of an error without one.
func internalError(msg string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonUnknown, Message: msg,
	}}
}
