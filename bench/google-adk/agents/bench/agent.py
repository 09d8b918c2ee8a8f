"""The agent of google-adk's server in the bench, with an instant model."""
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

ANSWER = "Sunny, with a light wind from the west, and no rain before the evening."


class InstantModel(BaseLlm):
    model: str = "instant"

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=ANSWER)]))


root_agent = LlmAgent(name="bench_root", model=InstantModel(), instruction="Be fast.")
