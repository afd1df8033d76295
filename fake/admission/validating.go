package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/fake/internal/admit"
)

// validate calls the validating webhooks. All are called, even if one refuses.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/validating.
func (w *webhooks) validate(ctx context.Context, r *admit.Request) error {
	hooks := w.validating.get()
	if len(hooks) == 0 {
		return nil
	}
	shown, err := newSeen(w.server, r)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var calls []*call
	for _, hook := range hooks {
		c, err := w.callOf(ctx, hook, shown)
		if err != nil {
			return err
		}
		if c != nil {
			calls = append(calls, c)
		}
	}
	if len(calls) > 0 && ctx.Err() != nil {
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	var first error
	for i, c := range calls {
		_, err := w.ask(ctx, c, false)
		if err == nil {
			continue
		}
		err = outcome(ctx, c, err, fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i))
		if first == nil {
			first = err
		}
	}
	return first
}
