package pvprotection

// Finalizer is finalizer, for external tests.
const Finalizer = finalizer
