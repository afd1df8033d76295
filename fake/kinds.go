package fake

import "slices"

//go:generate go run ./internal/clientgen

// kinds is the table of built-in resources, in discovery order.
var kinds = withViews(slices.Concat(coreKinds, storageKinds, appsKinds, batchKinds, networkKinds, autoscalingKinds, webhookKinds, policyKinds, otherKinds))

// withViews adds the kinds that show others.
func withViews(stored []*kind) []*kind {
	all := slices.Clone(stored)
	for _, k := range stored {
		switch k.resource {
		case "events":
			all = append(all, newEventsView(k))
		case "horizontalpodautoscalers":
			all = append(all, newAutoscalerView(k))
		case "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			all = append(all, newBetaView(k))
		case "statefulsets", "deployments", "replicasets", "replicationcontrollers":
			k.scale = newScale(k)
		}
	}
	return all
}
