// Package causality derives from the records of a trace which process knew what, and which objects
// concern each other.
//
//	knowledge := causality.NewCacheKnowledge()
//	for i := range records {
//		knowledge.Observe(&records[i], true)
//	}
//	unseen := knowledge.Unseen("pvcontroller") // writes that its caches have not seen
//
// [CacheKnowledge] follows deliveries: a cache has seen the writes up to the version of its last
// delivery, until its process crashes. [RelatedObjects] follows references between objects: claim
// and volume, pod and claim, attachment and volume. Stories and pictures ask both and therefore
// agree.
//
// # What it does not do
//
// It knows nothing of reads that bypass the caches, and nothing that the trace does not record.
package causality
