package pvcontroller

// ResyncPeriod is exported for the tests.
const ResyncPeriod = resyncPeriod
