//! Jobs.

use super::texts;

texts! {
    /// The jobs of a project.
    Jobs {
        title = "Jobs";
        about = "Replays, backtests and exports of this project. One that is over is listed until its result expires.";
    }
}
