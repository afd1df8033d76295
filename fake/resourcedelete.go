package fake

import (
	"context"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim/trace"
)

// Delete deletes an object or begins its deletion.
func (r ResourceClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) (Result, error) {
	if r.c.interceptor != nil {
		return r.intercept(r.interceptedRequest("delete", name, opts),
			func(r ResourceClient) (Result, error) { return r.Delete(ctx, name, opts) })
	}
	return r.write(ctx, r.traceRequest("delete", name), func(w writer) (writeResult, error) {
		if err := r.authorize("delete", name); err != nil {
			return writeResult{}, err
		}
		if r.c.server.admits() {
			copied := opts
			w.admission = r.admission(ctx, admissionv1.Delete, name, &copied)
		}
		done, err := w.remove(r.storedKind(), r.namespace, name, opts, r.kind.webhookForm())
		done.warnings = append(w.admission.warnings(), r.kind.deleteWarnings(&opts)...)
		return done, err
	})
}

// deleteWarnings returns the warnings for a deletion.
func (k *kind) deleteWarnings(opts *metav1.DeleteOptions) []string {
	//lint:ignore SA1019 clients still send it
	if k.deleteWarning == "" || opts.PropagationPolicy != nil || opts.OrphanDependents != nil {
		return nil
	}
	return []string{k.deleteWarning}
}

// DeleteCollection deletes the selected objects one by one, in order. It returns them as they were
// before.
func (r ResourceClient) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions,
	sel metav1.ListOptions,
) (ObjectList, error) {
	if r.c.interceptor != nil {
		request := r.interceptedRequest("deletecollection", "", opts)
		request.ListOptions = sel
		return r.interceptList(request, func(r ResourceClient) (ObjectList, error) {
			return r.DeleteCollection(ctx, opts, sel)
		})
	}
	var all ObjectList
	err := r.c.call(ctx, r.traceRequest("deletecollection", ""), func(w writer) trace.Outcome {
		err := r.authorizeSeveral("deletecollection", sel.FieldSelector)
		if err == nil {
			err = validateDelete(&opts)
		}
		if err == nil {
			all, err = r.c.server.list(r.kind, r.namespace, &sel)
		}
		if err != nil {
			return trace.Outcome{Err: err}
		}
		if r.c.server.admits() {
			copied := opts
			w.admission = r.admission(ctx, admissionv1.Delete, "", &copied)
		}
		for _, obj := range all.Objects {
			_, err := w.remove(r.storedKind(), obj.GetNamespace(), obj.GetName(), opts, nil)
			if err != nil && !apierrors.IsNotFound(err) {
				return trace.Outcome{Err: err}
			}
		}
		all.Warnings = append(w.admission.warnings(), r.kind.deleteWarnings(&opts)...)
		return trace.Outcome{Detail: strconv.Itoa(len(all.Objects)) + " items"}
	})
	return all, err
}
