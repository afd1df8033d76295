// Package podclaims knows which claims a pod uses, and whether it still uses them.
//
// Several components ask the same two questions of a pod: which claims stand behind its volumes, those made for its
// ephemeral volumes included, and whether its containers have ended for good. [AddIndex] lets a cache of pods answer the
// reverse question.
//
// Not here: whether a claim may go, be attached or be mounted. That is for each component to decide.
package podclaims
