"""The stand-ins' request shapes against the providers' own: no member that the provider does not know."""

from __future__ import annotations

import typing
import warnings

import anthropic.types as claude
import msgspec
import openai.types.chat as gpt
import openai.types.shared_params as gpt_shared
import pytest
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params

from deploy.demo.providers import converse_shapes, gemini_shapes, messages_shapes, openai_shapes
from tests.unit.deploy.demo.providers.sdk import bedrock

with warnings.catch_warnings():
    # The library still inherits from a class that a dependency of its has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from google.genai import types as gemini


def members(shape):
    """The names of the members of one of our shapes, as they are on the wire."""
    tag = shape.__struct_config__.tag_field
    return set(shape.__struct_encode_fields__) | ({tag} if tag else set())


def required(shape):
    return {field.encode_name for field in msgspec.structs.fields(shape) if field.required}


CONVERSE = {
    "Audio": "AudioBlock",
    "CachePoint": "CachePointBlock",
    "Content": "ContentBlock",
    "ConverseRequest": "ConverseRequest",
    "Document": "DocumentBlock",
    "DocumentSource": "DocumentSource",
    "GuardrailConfig": "GuardrailStreamConfiguration",
    "Image": "ImageBlock",
    "InferenceConfig": "InferenceConfiguration",
    "JSONSchema": "JsonSchemaDefinition",
    "MediaSource": "ImageSource",
    "Message": "Message",
    "NamedTool": "SpecificToolChoice",
    "OutputConfig": "OutputConfig",
    "Performance": "PerformanceConfiguration",
    "Reasoning": "ReasoningContentBlock",
    "ReasoningText": "ReasoningTextBlock",
    "S3Location": "S3Location",
    "ServiceTier": "ServiceTier",
    "SystemContent": "SystemContentBlock",
    "TextFormat": "OutputFormat",
    "Tool": "Tool",
    "ToolChoice": "ToolChoice",
    "ToolConfig": "ToolConfiguration",
    "ToolResult": "ToolResultBlock",
    "ToolResultContent": "ToolResultContentBlock",
    "ToolSpec": "ToolSpecification",
    "ToolUse": "ToolUseBlock",
    "Video": "VideoBlock",
}


@pytest.mark.parametrize(("ours", "theirs"), CONVERSE.items(), ids=CONVERSE)
def test_converse(ours, theirs):
    shape, known = getattr(converse_shapes, ours), bedrock().shape_for(theirs)

    assert members(shape) <= set(known.members)
    # What is in the path is not in the body.
    in_body = {name for name in known.required_members if known.members[name].serialization.get("location") != "uri"}
    assert in_body <= required(shape)


def test_every_value_that_converse_lists_is_taken():
    formats = typing.get_args(typing.get_type_hints(converse_shapes.Image)["format"])

    assert set(formats) == set(bedrock().shape_for("ImageFormat").enum)


GEMINI = {
    "Blob": gemini.Blob,
    "Content": gemini.Content,
    "FileData": gemini.FileData,
    "FunctionCall": gemini.FunctionCall,
    "FunctionCalling": gemini.FunctionCallingConfig,
    "FunctionDeclaration": gemini.FunctionDeclaration,
    "FunctionResponse": gemini.FunctionResponse,
    "MediaResolution": gemini.PartMediaResolution,
    "Part": gemini.Part,
    "SafetySetting": gemini.SafetySetting,
    "Schema": gemini.Schema,
    "ThinkingConfig": gemini.ThinkingConfig,
    "Tool": gemini.Tool,
    "ToolConfig": gemini.ToolConfig,
}


@pytest.mark.parametrize(("ours", "theirs"), GEMINI.items(), ids=GEMINI)
def test_gemini(ours, theirs):
    known = {field.alias or name for name, field in theirs.model_fields.items()}

    assert members(getattr(gemini_shapes, ours)) <= known


MESSAGES = {
    "ByURL": claude.URLImageSourceParam,
    "CacheControl": claude.CacheControlEphemeralParam,
    "ChooseAny": claude.ToolChoiceAnyParam,
    "ChooseAuto": claude.ToolChoiceAutoParam,
    "ChooseNone": claude.ToolChoiceNoneParam,
    "ChooseTool": claude.ToolChoiceToolParam,
    "Document": claude.DocumentBlockParam,
    "DocumentData": claude.Base64PDFSourceParam,
    "FirstPartyRequest": message_create_params.MessageCreateParamsStreaming,
    "Image": claude.ImageBlockParam,
    "ImageData": claude.Base64ImageSourceParam,
    "JSONFormat": claude.JSONOutputFormatParam,
    "Metadata": claude.MetadataParam,
    "OutputConfig": claude.OutputConfigParam,
    "PlainText": claude.PlainTextSourceParam,
    "RedactedThinking": claude.RedactedThinkingBlockParam,
    "Text": claude.TextBlockParam,
    "Thinking": claude.ThinkingBlockParam,
    "ThinkingAdaptive": claude.ThinkingConfigAdaptiveParam,
    "ThinkingDisabled": claude.ThinkingConfigDisabledParam,
    "ThinkingEnabled": claude.ThinkingConfigEnabledParam,
    "Tool": claude.ToolParam,
    "ToolResult": claude.ToolResultBlockParam,
    "ToolUse": claude.ToolUseBlockParam,
}


@pytest.mark.parametrize(("ours", "theirs"), MESSAGES.items(), ids=MESSAGES)
def test_messages(ours, theirs):
    # Sampling is not among the parameters of the newest models; those of before still have it.
    older = {"temperature", "top_k", "top_p"} if ours == "FirstPartyRequest" else set()

    assert members(getattr(messages_shapes, ours)) <= set(theirs.__annotations__) | inherited(theirs) | older


OPENAI = {
    "AssistantMessage": gpt.ChatCompletionAssistantMessageParam,
    "AudioPart": gpt.ChatCompletionContentPartInputAudioParam,
    "ChatRequest": completion_create_params.CompletionCreateParamsStreaming,
    "DeveloperMessage": gpt.ChatCompletionDeveloperMessageParam,
    "FilePart": gpt.chat_completion_content_part_param.File,
    "Function": gpt_shared.FunctionDefinition,
    "ImagePart": gpt.ChatCompletionContentPartImageParam,
    "NamedTool": gpt.ChatCompletionNamedToolChoiceParam,
    "RefusalPart": gpt.ChatCompletionContentPartRefusalParam,
    "SchemaFormat": gpt_shared.ResponseFormatJSONSchema,
    "StreamOptions": gpt.ChatCompletionStreamOptionsParam,
    "SystemMessage": gpt.ChatCompletionSystemMessageParam,
    "TextPart": gpt.ChatCompletionContentPartTextParam,
    "Tool": gpt.ChatCompletionFunctionToolParam,
    "ToolCall": gpt.ChatCompletionMessageFunctionToolCallParam,
    "ToolMessage": gpt.ChatCompletionToolMessageParam,
    "UserMessage": gpt.ChatCompletionUserMessageParam,
}


@pytest.mark.parametrize(("ours", "theirs"), OPENAI.items(), ids=OPENAI)
def test_openai(ours, theirs):
    # Answers have it, so histories have it, too.
    of_answers = {"annotations"} if ours == "AssistantMessage" else set()

    assert members(getattr(openai_shapes, ours)) <= set(theirs.__annotations__) | inherited(theirs) | of_answers


def inherited(theirs):
    """The members of the typed dictionaries that this one extends."""
    return {name for base in getattr(theirs, "__orig_bases__", ()) for name in getattr(base, "__annotations__", ())}
