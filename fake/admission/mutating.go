package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/fake/internal/admit"
)

// rounds is what the first round of a request's mutating webhooks leaves for the second.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating webhookReinvokeContext.
type rounds struct {
	output  runtime.Object  // after the last round
	invoked map[string]bool // webhooks that may be called again, and were called since the last change
	again   map[string]bool // webhooks that are called again
}

// changed makes the webhooks that were called before a change be called again.
func (s *rounds) changed() {
	for id := range s.invoked {
		s.again[id] = true
	}
	clear(s.invoked)
}

// mutate calls the mutating webhooks. In the second round it calls those again that ask for it and were called before
// another one, or a plugin of the server, changed the object.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
func (w *webhooks) mutate(ctx context.Context, r *admit.Request, state *rounds) error {
	round := 0
	if r.Again {
		round = 1
		if !equality.Semantic.DeepEqual(state.output, r.Object) {
			state.changed()
		}
	}
	defer func() { state.output = r.Object }()
	var shown *seen
	for i, hook := range w.mutating.get() {
		var err error
		if shown == nil { // at first, and after a patch
			if shown, err = newSeen(w.server, r); err != nil {
				return apierrors.NewInternalError(err)
			}
		}
		c, err := w.callOf(ctx, hook, shown)
		if err != nil {
			return err
		}
		if c == nil || r.Again && !state.again[hook.GetUID()] {
			continue
		}
		before := r.Object
		changed, err := w.askToMutate(ctx, c, round, i)
		if r.Object != before {
			shown = nil
		}
		if changed {
			state.changed()
		}
		if h, ok := hook.GetMutatingWebhook(); ok && h.ReinvocationPolicy != nil && *h.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy {
			state.invoked[hook.GetUID()] = true
		}
		if err == nil {
			continue
		}
		if err := outcome(ctx, c, err, fmt.Sprintf("failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d", round, i)); err != nil {
			return err
		}
	}
	return nil
}

// askToMutate calls a webhook and applies its patch. It reports whether the object is another one then.
func (w *webhooks) askToMutate(ctx context.Context, c *call, round, index int) (changed bool, err error) {
	defer func() { annotateMutation(ctx, c, round, index, changed) }()
	answer, err := w.ask(ctx, c, true)
	if err != nil || len(answer.Patch) == 0 {
		return false, err
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	switch {
	case err != nil:
		return false, failed(c, "received undecodable patch in webhook response: %w", err, apierrors.NewServiceUnavailable("error decoding patch in webhook response"))
	case len(patch) == 0:
		return false, nil
	case c.attributes.GetObject() == nil:
		return false, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", c.hook.GetName()))
	case answer.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, failed(c, "%w", fmt.Errorf("unsupported patch type %q", answer.PatchType), webhookerrors.ToStatusErr(c.hook.GetName(), answer.Result))
	}
	obj, err := patched(c.attributes.GetObject(), patch)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	annotatePatch(ctx, c, round, index, patch)
	changed = !equality.Semantic.DeepEqual(c.attributes.GetObject(), obj)
	if err := replace(c.request, obj, c.attributes.VersionedKind); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// patched returns a patched copy of an object.
func patched(obj runtime.Object, patch jsonpatch.Patch) (runtime.Object, error) {
	doc, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if doc, err = patch.Apply(doc); err != nil {
		return nil, err
	}
	if _, ok := obj.(*unstructured.Unstructured); ok {
		out := &unstructured.Unstructured{}
		return out, out.UnmarshalJSON(doc)
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	out, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	out, _, err = scheme.Codecs.UniversalDeserializer().Decode(doc, nil, out)
	if err == nil && out.GetObjectKind().GroupVersionKind() != kind {
		err = errors.New("the patch changed the type of the object")
	}
	return out, err
}
