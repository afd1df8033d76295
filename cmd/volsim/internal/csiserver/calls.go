package csiserver

import (
	"context"
	"log/slog"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// durationBuckets are the bounds of the duration histogram in seconds, from simple lookups to
// copies of large volumes.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// A CallObserver logs and measures the calls of a server. Create it with NewCallObserver.
type CallObserver struct {
	log      *slog.Logger
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// NewCallObserver returns an observer that logs each call: failures as warnings, calls without a
// volume (capabilities, lists) at debug level. It registers two metrics:
// csi_plugin_operations_seconds, by driver, method and code, and csi_plugin_operations_in_flight.
//
// Upstream: csi-lib-utils metrics, for names and labels; the buckets are volsim's.
func NewCallObserver(log *slog.Logger, registry prometheus.Registerer, driver string) (*CallObserver, error) {
	c := &CallObserver{
		log: log,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "csi_plugin_operations_seconds", Help: "Duration of CSI driver calls, by method and gRPC code.",
			ConstLabels: prometheus.Labels{"driver_name": driver}, Buckets: durationBuckets,
		}, []string{"method_name", "grpc_status_code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "csi_plugin_operations_in_flight", Help: "Number of CSI driver calls in flight.",
			ConstLabels: prometheus.Labels{"driver_name": driver},
		}),
	}
	for _, each := range []prometheus.Collector{c.duration, c.inFlight} {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Observe is a gRPC interceptor that observes calls.
func (c *CallObserver) Observe(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	c.inFlight.Inc()
	defer c.inFlight.Dec()
	began := time.Now()
	response, err := handle(ctx, request)
	c.record(ctx, info.FullMethod, request, response, err, time.Since(began))
	return response, err
}

func (c *CallObserver) record(ctx context.Context, method string, request, response any,
	err error, took time.Duration,
) {
	code := status.Code(err)
	c.duration.WithLabelValues(method, code.String()).Observe(took.Seconds())
	name, about := callSubject(request)
	level := slog.LevelInfo
	switch {
	case code != codes.OK:
		level = slog.LevelWarn
	case about == "":
		level = slog.LevelDebug
	}
	if !c.log.Enabled(ctx, level) {
		return
	}
	words := []slog.Attr{slog.String("method", path.Base(method))}
	if about != "" {
		words = append(words, slog.String(name, about))
	}
	words = append(words, slog.String("code", code.String()), slog.Duration("took", took.Round(time.Microsecond)))
	if err != nil {
		words = append(words, slog.String("error", status.Convert(err).Message()))
	}
	if c.log.Enabled(ctx, slog.LevelDebug) {
		words = append(words, slog.String("request", text(request)))
		if err == nil {
			words = append(words, slog.String("response", text(response)))
		}
	}
	c.log.LogAttrs(ctx, level, "call", words...)
}

// callSubject returns what a call concerns: the ID of a volume or snapshot, or the name of one to
// create.
func callSubject(request any) (name, about string) {
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		return "volume", r.GetVolumeId()
	}
	if r, ok := request.(interface{ GetSnapshotId() string }); ok {
		return "snapshot", r.GetSnapshotId()
	}
	if r, ok := request.(interface{ GetGroupSnapshotId() string }); ok {
		return "group", r.GetGroupSnapshotId()
	}
	if r, ok := request.(interface{ GetName() string }); ok {
		return "name", r.GetName()
	}
	return "", ""
}

// text returns a message as one line of JSON, with secrets redacted.
func text(message any) string {
	m, ok := message.(proto.Message)
	if !ok {
		return ""
	}
	encoded, err := protojson.Marshal(withoutSecrets(m))
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
