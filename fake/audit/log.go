package audit

import (
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"

	"github.com/volsim/volsim/internal/auditrecord"
)

// Config configures New.
type Config struct {
	Out io.Writer // receives each event as one Write of a line; required
	// Level is what is recorded of a request that no rule of Policy matches: "None", "Metadata", "Request"
	// or "RequestResponse". "": "Metadata" without a policy, "None" with one. Without a policy no more than
	// metadata is recorded of secrets, config maps, and requests that contain tokens.
	Level string
	// Policy is an audit policy of audit.k8s.io/v1 in YAML or JSON. nil: Level decides.
	Policy []byte
}

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	policy policyEvaluator
	infos  apirequest.RequestInfoFactory
	sink   *sink
}

var _ auditrecord.Log = (*Log)(nil)

// New returns an audit log. The error is that of the level or of the policy.
func New(cfg Config) (*Log, error) {
	policy, err := newPolicy(cfg.Level, cfg.Policy)
	if err != nil {
		return nil, err
	}
	out := &lockedWriter{out: cfg.Out}
	return &Log{
		policy: policy,
		infos:  apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		sink:   &sink{backend: auditlog.NewBackend(out, auditlog.FormatJson, auditv1.SchemeGroupVersion)},
	}, nil
}

// PolicyWarning returns what is wrong with the policy and was ignored, such as an unknown field, or "".
func (l *Log) PolicyWarning() string { return l.policy.warning }

// Begin records that a request was received. It is for handlers of package fake/apiserver.
func (l *Log) Begin(r *http.Request, about auditrecord.Request) (auditrecord.Record, error) {
	attributes, err := l.attributesOf(r, about)
	if err != nil {
		return nil, err
	}
	config := l.policy.EvaluatePolicyRule(attributes)
	if config.Level == auditinternal.LevelNone {
		return auditrecord.None{}, nil
	}
	ctx := audit.WithAuditContext(r.Context())
	audit.WithAuditID(ctx, types.UID(about.ID))
	record := &record{ctx: ctx, event: audit.AuditContextFrom(ctx), level: config.Level, longRunning: about.LongRunning || about.Unauthenticated}
	if err := record.event.Init(config, timedSink{l.sink, about.Now}); err != nil {
		return nil, err
	}
	audit.LogRequestMetadata(ctx, r, about.Now(), attributes)
	if about.Unauthenticated {
		record.refused = true
		return record, nil
	}
	if !record.event.ProcessEventStage(ctx, auditinternal.StageRequestReceived) {
		return nil, errStore
	}
	return record, nil
}

// attributesOf returns the attributes of a request by which the policy is evaluated.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters GetAuthorizerAttributes.
func (l *Log) attributesOf(r *http.Request, about auditrecord.Request) (authorizer.Attributes, error) {
	info, err := l.infos.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	a := authorizer.AttributesRecord{
		Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest, Namespace: info.Namespace, Name: info.Name,
		APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
	}
	if about.User != nil {
		a.User = infoOf(about.User)
	}
	return a, nil
}

// A sink writes events, one at a time.
type sink struct{ backend audit.Sink }

// timedSink sets the time of an event by the clock of its request.
//
// Differs: the real server has the time of its machine.
type timedSink struct {
	*sink
	now func() time.Time
}

var _ audit.Sink = timedSink{}

// ProcessEvents writes events, and reports whether it could.
func (s timedSink) ProcessEvents(events ...*auditinternal.Event) bool {
	written := true
	for _, event := range events {
		timed := *event
		if timed.Stage != auditinternal.StageRequestReceived {
			timed.StageTimestamp = metav1.NewMicroTime(s.now())
		}
		written = s.backend.ProcessEvents(&timed) && written
	}
	return written
}

// A lockedWriter serializes writes.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

// Write writes one line.
func (w *lockedWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}
