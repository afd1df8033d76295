// Package driver is a CSI driver's controller service as a sidecar sees it: what the driver can do, asked once, and how
// the access modes of the Kubernetes API are said in CSI.
//
// Not here: the identity service. A driver without a controller service is one that answers Unimplemented.
package driver
