"""Mathematical answers: found in a completion, read, compared, graded."""

from rlcore_rewards.math.compare import Policy as Policy
from rlcore_rewards.math.compare import compare as compare
from rlcore_rewards.math.extract import extract as extract
from rlcore_rewards.math.grading import Math as Math
from rlcore_rewards.math.grading import gsm8k as gsm8k
from rlcore_rewards.math.peers import MathVerify as MathVerify
from rlcore_rewards.math.peers import hendrycks_math as hendrycks_math
from rlcore_rewards.math.peers import verl_gsm8k as verl_gsm8k
from rlcore_rewards.math.peers import verl_math_dapo as verl_math_dapo
from rlcore_rewards.math.read import readable as readable
