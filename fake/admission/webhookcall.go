package admission

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// A review is a question to a webhook.
type review struct {
	uid    types.UID
	sent   runtime.Object
	answer runtime.Object // to decode into
}

// ask calls a webhook, and returns its answer. An error that is an ErrCallingWebhook is about the call, and the failure
// policy decides about it. Any other one is the answer to the request.
func (w *webhooks) ask(ctx context.Context, c *call, mutating bool) (*webhookrequest.AdmissionResponse, error) {
	if err := mayRehearse(c); err != nil {
		return nil, err
	}
	q, err := w.reviewOf(c)
	if err != nil {
		return nil, failed(c, "could not create admission objects: %w", err, apierrors.NewBadRequest("error creating admission objects"))
	}
	client, err := c.hook.GetRESTClient(w.clients())
	if err != nil {
		return nil, failed(c, "could not get REST client: %w", err, apierrors.NewInternalError(err))
	}
	if err := c.request.Call(ctx, c.hook.GetName(), func() error { return w.send(ctx, c, client, q) }); err != nil {
		var status *apierrors.StatusError
		if !errors.As(err, &status) {
			status = apierrors.NewServiceUnavailable("error calling webhook")
		}
		return nil, failed(c, "failed to call webhook: %w", err, status)
	}
	answer, err := webhookrequest.VerifyAdmissionResponse(q.uid, mutating, q.answer)
	if err != nil {
		return nil, failed(c, "received invalid webhook response: %w", err, apierrors.NewServiceUnavailable("error validating webhook response"))
	}
	for name, text := range answer.AuditAnnotations {
		annotate(ctx, c.attributes, c.hook.GetName()+"/"+name, text)
	}
	for _, text := range answer.Warnings {
		c.request.Warn(text)
	}
	if !answer.Allowed {
		return nil, webhookerrors.ToStatusErr(c.hook.GetName(), answer.Result)
	}
	return answer, nil
}

// mayRehearse refuses a dry run that a webhook does not support.
func mayRehearse(c *call) error {
	if !c.request.DryRun {
		return nil
	}
	switch effects := c.hook.GetSideEffects(); {
	case effects == nil:
		//lint:ignore ST1005 the words are upstream's
		return failed(c, "%w", errors.New("Webhook SideEffects is nil"), apierrors.NewBadRequest("Webhook SideEffects is nil"))
	case *effects == registrationv1.SideEffectClassNone, *effects == registrationv1.SideEffectClassNoneOnDryRun:
		return nil
	}
	return webhookerrors.NewDryRunUnsupportedErr(c.hook.GetName())
}

// failed returns the error of a call without a valid answer.
func failed(c *call, format string, err error, status *apierrors.StatusError) error {
	return &webhookutil.ErrCallingWebhook{WebhookName: c.hook.GetName(), Reason: fmt.Errorf(format, err), Status: status}
}

// reviewOf returns the question to a webhook, in the first version that both know.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/request CreateAdmissionObjects.
func (w *webhooks) reviewOf(c *call) (review, error) {
	about := &generic.WebhookInvocation{
		Webhook: c.hook, Resource: c.resource, Subresource: c.request.Subresource, Kind: c.attributes.VersionedKind,
	}
	uid := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", w.reviews.Add(1)))
	for _, version := range c.hook.GetAdmissionReviewVersions() {
		switch version {
		case admissionv1.SchemeGroupVersion.Version:
			return review{uid, webhookrequest.CreateV1AdmissionReview(uid, c.attributes, about), &admissionv1.AdmissionReview{}}, nil
		case admissionv1beta1.SchemeGroupVersion.Version:
			return review{uid, webhookrequest.CreateV1beta1AdmissionReview(uid, c.attributes, about), &admissionv1beta1.AdmissionReview{}}, nil
		}
	}
	return review{}, errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// send sends a review, and decodes the answer. A Service inside the process has the time of the world.
func (w *webhooks) send(ctx context.Context, c *call, client *rest.RESTClient, q review) error {
	limit := time.Duration(ptr.Deref(c.hook.GetTimeoutSeconds(), 10)) * time.Second
	post := client.Post().Body(q.sent)
	s := c.hook.GetClientConfig().Service
	if s == nil || !w.services.InProcess(s.Namespace, s.Name) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return post.Timeout(limit).Do(ctx).Into(q.answer)
	}
	post = post.Param("timeout", limit.String())
	began := c.request.Now()
	err := post.Do(ctx).Into(q.answer)
	if c.request.Now().Sub(began) >= limit {
		return &url.Error{Op: "Post", URL: post.URL().String(), Err: context.DeadlineExceeded}
	}
	return err
}

// ignores reports whether a request goes on although the call of a webhook failed.
func ignores(c *call) bool {
	p := c.hook.GetFailurePolicy()
	return p != nil && *p == registrationv1.Ignore
}

// outcome returns the answer to a request after a call that failed or refused it, or nil if the request goes on.
func outcome(ctx context.Context, c *call, err error, failedOpen string) error {
	var calling *webhookutil.ErrCallingWebhook
	switch {
	case !errors.As(err, &calling):
		return err
	case !ignores(c):
		return apierrors.NewInternalError(err)
	}
	annotate(ctx, c.attributes, failedOpen, c.hook.GetName())
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	return nil
}
