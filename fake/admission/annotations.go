package admission

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/audit"
	auditlog "k8s.io/apiserver/pkg/audit"
)

// A mutation is the annotation of an audit event about the call of a mutating webhook.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating MutationAuditAnnotation, PatchAuditAnnotation.
type mutation struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Mutated       *bool           `json:"mutated,omitempty"`
	Patch         jsonpatch.Patch `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

// annotate adds an annotation to the audit event of the request, if there is one. A key without the form of one is ignored.
func annotate(ctx context.Context, a admission.Attributes, key, value string) {
	if auditlog.AuditContextFrom(ctx) != nil && a.AddAnnotation(key, value) == nil {
		auditlog.AddAuditAnnotation(ctx, key, value)
	}
}

func annotateMutation(ctx context.Context, c *call, round, index int, mutated bool) {
	if auditlog.AuditContextFrom(ctx) == nil {
		return
	}
	text, err := json.Marshal(mutation{Configuration: c.hook.GetConfigurationName(), Webhook: c.hook.GetName(), Mutated: &mutated})
	if err == nil {
		annotate(ctx, c.attributes, fmt.Sprintf("mutation.webhook.admission.k8s.io/round_%d_index_%d", round, index), string(text))
	}
}

// annotatePatch adds a patch to an audit event that has the objects of the request.
func annotatePatch(ctx context.Context, c *call, round, index int, patch jsonpatch.Patch) {
	a := auditlog.AuditContextFrom(ctx)
	if a == nil || a.GetEventLevel().Less(audit.LevelRequest) {
		return
	}
	text, err := json.Marshal(mutation{
		Configuration: c.hook.GetConfigurationName(), Webhook: c.hook.GetName(), Patch: patch, PatchType: "JSONPatch",
	})
	if err == nil {
		annotate(ctx, c.attributes, fmt.Sprintf("patch.webhook.admission.k8s.io/round_%d_index_%d", round, index), string(text))
	}
}
