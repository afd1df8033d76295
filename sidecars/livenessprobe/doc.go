// Package livenessprobe is the livenessprobe of a CSI driver: an HTTP handler that probes the driver.
//
//	dial := func() (grpc.ClientConnInterface, func() error, error) {
//		conn, err := grpc.NewClient("unix:///csi/csi.sock", credentials)
//		return conn, conn.Close, err
//	}
//	http.ListenAndServe(":9808", livenessprobe.New(dial, 0))
//
// GET /healthz connects to the driver and calls Probe. It is answered with 200 and "ok", or with 500
// and the reason: the driver cannot be reached, fails, does not answer in time, or is not ready.
//
// What it does not do: metrics. It does not ask the driver for its name when it starts.
//
// Upstream: livenessprobe.
package livenessprobe
